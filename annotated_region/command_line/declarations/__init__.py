"""What each command takes, one file a command; nothing here needs TVM, so that ``--help`` answers at once.

``placing`` holds the arguments that several commands have.
"""
