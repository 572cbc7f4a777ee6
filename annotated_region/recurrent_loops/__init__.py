"""Loops over sequences of any length: as functions of TVM, and as an op that targets claim."""
