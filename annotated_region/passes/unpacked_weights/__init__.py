"""Recognizes float weights that constant ops make of packed integers, whatever the order of the bits."""
