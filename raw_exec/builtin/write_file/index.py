"""The ``write_file`` tool: changes files by operations or by a patch."""

from __future__ import annotations

# The worker has this folder on sys.path; the supervisor imports the same package by its
# full name. Both read the arguments with changes.request.parse_request.
from changes.run import handler  # type: ignore[import-not-found]

__all__ = ["handler"]
