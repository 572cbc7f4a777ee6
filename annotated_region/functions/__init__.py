"""Transformations of Relax functions and modules: external functions from regions, and their inverse."""
