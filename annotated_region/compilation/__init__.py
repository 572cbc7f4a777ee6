"""From external functions to an executable: code generation, TVM's compilation, linking."""
