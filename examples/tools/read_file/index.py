"""The ``read_file`` tool: text files, whole or by lines, within one output budget."""

from __future__ import annotations

# The worker has this folder on sys.path; the supervisor imports the same package by its
# full name.
from reading.run import handler  # type: ignore[import-not-found]

__all__ = ["handler"]
