"""How paths in effects are written: absolute and lexically normalised.

Source: seed 1, "Write effects". Lexical means that no file system is asked, so a symbolic
link is not resolved and ``a/../b`` is ``b`` whatever ``a`` is. Rules that name a path
therefore judge the name a tool uses, not the file it reaches; the sandbox judges that.
"""

from __future__ import annotations

__all__ = ["is_effect_path", "normalise_effect_path"]


def normalise_effect_path(path: str, cwd: str) -> str:
    """Return ``path`` as effects write it.

    Args:
        path: As the call gives it; relative ones start at ``cwd``.
        cwd: The session's folder, absolute.

    Raises:
        ValueError: ``cwd`` is not absolute, or ``path`` is empty or holds a NUL.
    """
    if not cwd.startswith("/"):
        raise ValueError(f"cwd must be absolute, got {cwd!r}")
    if not path:
        raise ValueError("an empty path names no file")
    whole = path if path.startswith("/") else f"{cwd}/{path}"
    if "\0" in whole:
        raise ValueError(f"a path cannot hold a NUL character: {whole!r}")
    kept: list[str] = []
    for part in whole.split("/"):
        if part == "..":
            del kept[-1:]
        elif part not in ("", "."):
            kept.append(part)
    return "/" + "/".join(kept)


def is_effect_path(path: str) -> bool:
    """Whether ``path`` is already written as effects must be."""
    return path.startswith("/") and "\0" not in path and normalise_effect_path(path, "/") == path
