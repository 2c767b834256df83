"""Read and write a project's files; nothing outside of its folder is written.

Security: a project is somebody's repository. Paths in it are names of that somebody, and so
are the links in its folder.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from ...errors import ConfigError
from ...jsontext import JsonTextError, read_regular_file

__all__ = ["MAX_FILE_BYTES", "inside", "read_project_file", "write_project_file"]

MAX_FILE_BYTES: Final = 64 * 1024 * 1024


def inside(root: Path, relative: str) -> Path:
    """Return the path of a project's file.

    Raises:
        ConfigError: ``path_outside``, when it, or a link on the way, leads out of ``root``.
    """
    path = Path(os.path.abspath(root / relative))
    real_root = os.path.realpath(root)
    real = os.path.join(os.path.realpath(path.parent), path.name)
    if os.path.isabs(relative) or os.path.commonpath([real_root, real]) != real_root:
        raise ConfigError(
            "path_outside",
            f"{relative!r} is not inside the project",
            where=str(root),
            hint="name a path below the project's folder",
        )
    return path


def read_project_file(path: Path) -> bytes | None:
    """Return a file's bytes, or ``None`` when there is none.

    Raises:
        ConfigError: ``project_unreadable``.
    """
    try:
        return read_regular_file(path, MAX_FILE_BYTES)
    except FileNotFoundError:
        return None
    except (OSError, JsonTextError) as exc:
        reason = getattr(exc, "strerror", None) or getattr(exc, "message", str(exc))
        raise ConfigError(
            "project_unreadable", f"can not be read: {reason}", where=str(path)
        ) from exc


def write_project_file(path: Path, text: str) -> None:
    """Write a file in one step: whoever reads it sees the old text or the new one.

    Raises:
        ConfigError: ``project_unwritable``.
    """
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(new, "x", encoding="utf-8", newline="\n") as file:
                file.write(text)
            os.replace(new, path)
        except BaseException:
            new.unlink(missing_ok=True)
            raise
    except OSError as exc:
        raise ConfigError(
            "project_unwritable", f"can not be written: {exc.strerror}", where=str(path)
        ) from exc
