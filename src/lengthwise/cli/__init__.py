"""The command line: one file a verb, over the rooms of the library; `lengthwise --help` shows them."""

from .app import app, main

__all__ = ["app", "main"]
