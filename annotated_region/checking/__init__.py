"""Finds wrong regions and ops: compares every region on its target with the host, on the host's values.

``check`` is the driver, ``program`` partitions and builds, ``comparison`` measures differences against the
``tolerance`` of their type, ``bisection`` finds a minimal failing set of ops, ``reproducer`` writes it to a
folder.
"""
