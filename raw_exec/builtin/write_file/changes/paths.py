"""Paths as ``write_file`` reads them: absolute and lexically normalised, files never asked.

The same path is shown in the effects and used for the writing, so ``a/../b`` is ``b`` for
both even where ``a`` is a symbolic link.
"""

from __future__ import annotations

__all__ = ["normalise_path", "path_problem"]


def normalise_path(path: str, cwd: str) -> str:
    """Return an absolute path without ``.``, ``..`` and doubled slashes.

    Args:
        path: Not empty; relative ones start at ``cwd``.
        cwd: Absolute.
    """
    whole = path if path.startswith("/") else f"{cwd}/{path}"
    kept: list[str] = []
    for part in whole.split("/"):
        if part == "..":
            del kept[-1:]
        elif part not in ("", "."):
            kept.append(part)
    return "/" + "/".join(kept)


def path_problem(path: str) -> str | None:
    """Return why a path can name no file, or ``None``."""
    if not path.strip():
        return "a path must not be empty or blank"
    if "\0" in path:
        return f"a path can't hold a NUL character, got {path!r:.200}"
    if path.rsplit("/", 1)[-1] in ("", ".", ".."):
        return f"{path!r:.200} names a folder, not a file"
    return None
