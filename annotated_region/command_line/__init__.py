"""The command line: one file per command, and shared code.

``run`` lists the commands and maps errors to exit codes. The arguments of the commands are declared in
``declarations``, which needs no TVM; the modules here do the work, and are imported after the arguments are
parsed. ``models`` reads model files, ``options`` has types of arguments.
"""
