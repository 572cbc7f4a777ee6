"""The passes that turn the nodes of imported ops into the nodes that run: local rewrites, in fixed order."""
