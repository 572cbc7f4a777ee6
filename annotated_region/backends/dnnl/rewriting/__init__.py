"""From the nodes that ops are translated to, to the nodes that run: local rewrites in a fixed order."""
