"""The fixed part of generated files: what every binding needs, in the file's own language."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from ..model import Language

__all__ = ["preamble"]


@cache
def preamble(language: Language) -> str:
    """Return the fixed part for a language, without imports."""
    return (files(__package__) / f"{language}.txt").read_text(encoding="utf-8")
