"""What the supervisor asks a built-in tool before a call is approved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["BuiltinDescriptor", "DescribeEffects"]


class DescribeEffects(Protocol):
    """Says what a call would change, in the form of the tool's ``effects_schema``."""

    def __call__(self, args: Any, *, cwd: str) -> dict[str, Any]:
        """Return the effects of valid arguments.

        Raises:
            ValueError: ``validate_args`` would have said why.
        """


@dataclass(frozen=True, slots=True)
class BuiltinDescriptor:
    """The trusted counterpart of ``validateArgs`` and ``describeEffects``.

    Args:
        validate_args: Returns what is wrong with arguments that fit the schema, or ``None``.
        describe_effects: Present when the tool has an ``effects_schema``.
    """

    validate_args: Callable[[Any], str | None] | None = None
    describe_effects: DescribeEffects | None = None
