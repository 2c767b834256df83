"""The ``process`` tool: background jobs, which the supervisor starts and watches."""

from __future__ import annotations

# The worker has this folder on sys.path; the supervisor imports the same package by its
# full name.
from asking.run import handler  # type: ignore[import-not-found]

__all__ = ["handler"]
