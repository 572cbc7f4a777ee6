"""Where the time of an executable goes: regions, the steps inside them, the host, the machine between them.

``profile`` runs it, ``clock`` times the calls of TVM's virtual machine, ``times`` is what comes of it.
"""
