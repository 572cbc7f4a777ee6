"""Which region, which op is wrong: every region on its target against the host, on the host's own values.

``check`` runs it, ``program`` cuts and builds, ``comparison`` measures differences against the ``tolerance``
of their type, ``bisection`` finds the smallest set of ops that fails, ``reproducer`` writes it to a folder.
"""
