"""The command line: one room a command, and what they share.

``run`` names the commands and turns errors into exit codes, ``models`` and ``tvmscript`` read the files
that users hand in, ``options`` holds the arguments that several commands have.
"""
