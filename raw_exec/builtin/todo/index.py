"""The ``todo`` tool: a list that lives in its panel."""

from __future__ import annotations

# The worker has this folder on sys.path; the supervisor imports the same package by its
# full name.
from listing.run import handler  # type: ignore[import-not-found]

__all__ = ["handler"]
