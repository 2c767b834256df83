"""The ``bash`` tool: shell commands in order, each with a row of its own."""

from __future__ import annotations

# The worker has this folder on sys.path; the supervisor imports the same package by its
# full name.
from running.run import handler  # type: ignore[import-not-found]

__all__ = ["handler"]
