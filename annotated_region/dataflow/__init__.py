"""The dataflow graph of a function: scopes, nodes, edges, execution order, and values traced through
tuples.
"""
