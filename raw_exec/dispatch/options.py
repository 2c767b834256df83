"""The options of one call, checked before it is made."""

from __future__ import annotations

import os

from ..errors import ConfigError
from ..limits import MAX_OUTPUT_BYTES

__all__ = ["call_ms", "call_source", "output_budget", "resolve_cwd"]


def resolve_cwd(cwd: str | os.PathLike[str]) -> str:
    """Return an existing directory as an absolute path without links.

    Raises:
        ConfigError: Code ``cwd_invalid``.
    """
    path = os.path.realpath(os.fspath(cwd))
    if not os.path.isdir(path):
        raise ConfigError("cwd_invalid", f"working directory {path!r} is not a directory")
    return path


def output_budget(asked: int | None, configured: int) -> int:
    """Return the bytes of text and JSON that the caller keeps.

    Raises:
        ConfigError: Code ``option_invalid``.
    """
    if asked is None:
        return configured
    if not 0 < asked <= MAX_OUTPUT_BYTES:
        raise ConfigError(
            "option_invalid", f"max_output_bytes must be 1 to {MAX_OUTPUT_BYTES}, got {asked}"
        )
    return asked


def call_source(source: str) -> str:
    """Return ``"model"`` or ``"user_action"``.

    Raises:
        ConfigError: Code ``option_invalid``: it is something else.
    """
    if source not in ("model", "user_action"):
        raise ConfigError("option_invalid", f"source must be 'model' or 'user_action': {source!r}")
    return source


def call_ms(asked: float | None, configured: int) -> int:
    """Return the wall time of a handler in milliseconds, at most what is configured.

    Raises:
        ConfigError: Code ``option_invalid``.
    """
    if asked is None:
        return configured
    if not asked > 0:
        raise ConfigError("option_invalid", f"timeout_seconds must be over 0, got {asked}")
    return max(1, int(min(asked * 1000, configured)))
