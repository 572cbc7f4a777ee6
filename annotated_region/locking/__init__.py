"""Locks: the placement of a model as reviewable text, and its replay after edits of the model.

``locked_ops`` holds the values, ``text_form`` prints and parses them, ``lock`` owns them. ``fingerprints``
and ``alignment`` find the ops of a lock in a model, ``held`` keeps those that may stay, ``replay`` places the
model according to the lock, and ``lock_diff`` reports the deviations.
"""
