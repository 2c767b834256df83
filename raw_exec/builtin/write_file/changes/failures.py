"""Why a row of ``write_file`` was not applied: a stable code and a sentence."""

from __future__ import annotations

import errno
import os

__all__ = ["Aborted", "RowFailed", "from_os_error"]

_CODES = {
    errno.ENOENT: ("not_found", "does not exist"),
    errno.EACCES: ("permission_denied", "is not permitted by the sandbox or by file permissions"),
    errno.EPERM: ("permission_denied", "is not permitted by the sandbox or by file permissions"),
    errno.EROFS: ("permission_denied", "is on a read-only file system"),
    errno.EEXIST: ("exists", "exists already"),
    errno.EISDIR: ("is_directory", "is a folder"),
    errno.ENOTDIR: ("not_a_directory", "is below something that is not a folder"),
    errno.ELOOP: ("symlink", "is a symbolic link, or there are too many on the way"),
    errno.ENOSPC: ("disk_full", "does not fit: no space is left"),
    errno.EDQUOT: ("disk_full", "does not fit: the quota is used up"),
    errno.EFBIG: ("disk_full", "is larger than the sandbox lets a file be"),
    errno.ENAMETOOLONG: ("name_too_long", "has a name that is too long"),
}


class RowFailed(Exception):
    """One operation or patch section can't be applied.

    Args:
        code: Stable, for programs.
        message: Ends a sentence that starts with the path.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    def as_dict(self) -> dict[str, str]:
        """Return the ``error`` of a row."""
        return {"code": self.code, "message": self.message}


class Aborted(Exception):
    """The call was aborted; what is not applied yet stays as it is."""


def from_os_error(exc: OSError) -> RowFailed:
    """Translate an error of the file system."""
    number = exc.errno or 0
    code, message = _CODES.get(number, ("io_error", os.strerror(number)))
    return RowFailed(code, f"{message} ({errno.errorcode.get(number, number)})")
