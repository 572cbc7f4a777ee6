"""Locks: who runs what of a model, as text to review, and how a model that was edited since stays as it was.

``locked_ops`` holds the values, ``text_form`` writes and reads them, ``lock`` owns them. ``fingerprints`` and
``alignment`` find the ops of a lock in a model, ``replay`` places the model as the lock says, and
``lock_diff`` tells what came out otherwise.
"""
