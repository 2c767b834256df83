"""Typed bindings from pinned contracts: Python with pydantic v2, TypeScript with zod 4.

Arguments are written by a model, so they are checked at run time, against everything that the
contract's schema says. Results come from the user's own code, so they have a static type.

Contract source: seed 3, "Using pinned tools in code".
"""

from .generate import generate
from .model import BINDING_LANGUAGES, GenerationError, Language, Lock, Prompt, Tool
from .python import generate_python
from .typescript import generate_typescript

__all__ = [
    "BINDING_LANGUAGES",
    "GenerationError",
    "Language",
    "Lock",
    "Prompt",
    "Tool",
    "generate",
    "generate_python",
    "generate_typescript",
]
