"""The dataflow graph of a function: scopes, nodes, edges, orders, and values traced through tuples."""
