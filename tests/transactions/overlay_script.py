"""Runs a piece of Python on a copy-on-write view of a folder; started in new namespaces.

Arguments: lower, upper, work and mount folder, then a file with the code, which finds itself in
the view. Only the standard library is used, and started alone it does the same as in a test.
"""

from __future__ import annotations

import ctypes
import os
import sys


def mount_overlay(lower: str, upper: str, work: str, target: str) -> None:
    """Mount the view."""
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"userxattr,lowerdir={lower},upperdir={upper},workdir={work}".encode()
    if libc.mount(b"overlay", target.encode(), b"overlay", 0, options) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), "mount")


if __name__ == "__main__":
    mount_overlay(*sys.argv[1:5])
    os.chdir(sys.argv[4])
    os.umask(0o022)
    with open(sys.argv[5], encoding="utf-8") as file:
        source = file.read()
    exec(compile(source, "script", "exec"), {"os": os, "__name__": "script"})  # noqa: S102
