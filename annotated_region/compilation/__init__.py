"""From external functions to an executable: code generators, TVM's part, libraries."""
