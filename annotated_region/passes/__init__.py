"""The passes, each an IRModule -> IRModule transformation in a file of its own."""
