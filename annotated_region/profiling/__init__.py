"""Profiles an executable: times of regions, of the steps inside them, of the host and the virtual machine.

``profile`` is the driver, ``clock`` times the calls of TVM's virtual machine, ``times`` holds the result.
"""
