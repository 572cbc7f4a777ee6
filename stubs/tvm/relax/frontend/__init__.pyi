"""Importers, and modules written in Python."""

from . import nn as nn
