"""The tensor expressions of common ops."""

from . import nn as nn
