"""The command line: one file a command, and what they share.

``run`` names the commands and turns errors into exit codes. What the commands take is declared in
``declarations``, which needs no TVM; the files beside it do the work, and are imported once the arguments
make sense. ``models`` reads the files that users hand in, ``options`` holds types of arguments.
"""
