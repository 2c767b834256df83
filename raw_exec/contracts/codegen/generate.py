"""One call for any language."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .model import Language, Lock
from .python import generate_python
from .typescript import generate_typescript

__all__ = ["generate"]

_GENERATORS: Final[dict[Language, Callable[[Lock], str]]] = {
    "python": generate_python,
    "typescript": generate_typescript,
}


def generate(lock: Lock, language: Language) -> str:
    """Return the text of one file of bindings. The same lock gives the same bytes.

    Raises:
        GenerationError: The lock or a schema can not be expressed.
    """
    return _GENERATORS[language](lock)
