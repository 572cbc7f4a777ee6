"""The part of the parser that all dialects share."""

from . import doc as doc
