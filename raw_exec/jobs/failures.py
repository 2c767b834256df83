"""The one error of this package."""

from __future__ import annotations

from ..errors import RawExecError

__all__ = ["JobError"]


class JobError(RawExecError):
    """A job can't be started, found or read.

    ``code`` is ``too_many_jobs``, ``start_failed``, ``cwd_invalid``, ``command_too_large``,
    ``unknown_job``, ``cursor_invalid``, ``request_invalid`` or ``closed``.
    """
