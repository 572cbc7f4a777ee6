"""The arguments of each command, one file per command; nothing here needs TVM, so that ``--help`` is fast.

``placing`` has the arguments that several commands share.
"""
