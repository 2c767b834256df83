"""What bindings are generated from: a resolved lock, as plain values.

No part of it says where it came from, so that a lock file with its cache, a server's answer
and a test build the same thing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ...errors import ContractError, Problem

__all__ = ["BINDING_LANGUAGES", "GenerationError", "Language", "Lock", "Prompt", "Tool"]

Language = Literal["python", "typescript"]
BINDING_LANGUAGES: tuple[Language, ...] = ("python", "typescript")


@dataclass(frozen=True, slots=True)
class Tool:
    """One pinned contract, under the name that the model emits.

    Args:
        wire_name: The pin's alias, ``^[a-zA-Z0-9_-]{1,64}$``; unique in its prompt.
        ref: ``@workspace/name``, without a version.
        version: The concrete version, or the draft's label.
        input_schema: What the model's arguments have to be.
        description: The model-facing text of the version.
        output_schema: What an implementation returns; ``None`` when nothing is said.
        draft: Whether the pinned version can still change.
    """

    wire_name: str
    ref: str
    version: str
    input_schema: Mapping[str, Any]
    description: str = ""
    output_schema: Mapping[str, Any] | None = None
    draft: bool = False


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt of the lock.

    Args:
        ref: ``@workspace/name`` as the project calls it: what code passes to ``get_prompt``.
        version: The concrete version, or the draft's label.
        tools: Its pins, in pin order.
        draft: Whether the version can still change.
    """

    ref: str
    version: str
    tools: tuple[Tool, ...] = ()
    draft: bool = False


@dataclass(frozen=True, slots=True)
class Lock:
    """Everything that one generated file is about. The order of prompts does not matter."""

    prompts: tuple[Prompt, ...] = ()


class GenerationError(ContractError):
    """Bindings can not be generated; nothing was written.

    ``code`` is ``schema_outside_subset``, ``name_collision``, ``wire_name``,
    ``duplicate_wire_name``, ``duplicate_prompt``, ``bad_ref`` or ``content_differs``.

    Args:
        problems: Places in the tool's schemas, when it is about one.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        where: str | None = None,
        hint: str | None = None,
        problems: tuple[Problem, ...] = (),
    ) -> None:
        super().__init__(code, message, where=where, hint=hint)
        self.problems = problems
