"""Relax in TVMScript."""

from . import parser as parser
