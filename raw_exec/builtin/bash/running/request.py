"""What ``bash`` is asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Command", "find_problem", "parse_request"]

DEFAULT_TIMEOUT_MS = 120_000
MAX_COMMAND_BYTES = 128 * 1024 - 1
"""Linux takes 128 KiB in one argument of a program, its final NUL included."""

_EXAMPLE = '{"commands":[{"command":"ls -la"}]}'


@dataclass(frozen=True, slots=True)
class Command:
    """One item of ``commands``.

    Args:
        text: For ``bash -c``.
        timeout_ms: How long it may take.
        env_refs: Environment name → variable name.
    """

    text: str
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    env_refs: dict[str, str] = field(default_factory=dict)


def parse_request(args: Any) -> tuple[Command, ...]:
    """Parse arguments that fit ``input_schema``. Pure.

    Raises:
        ValueError: An item can't be meant as written.
    """
    return tuple(_command(index, item) for index, item in enumerate(args["commands"]))


def find_problem(args: Any) -> str | None:
    """Return what is wrong with the arguments beyond their schema, with a call that works."""
    try:
        parse_request(args)
    except ValueError as exc:
        return f"{exc}; for example {_EXAMPLE}"
    return None


def _command(index: int, item: Any) -> Command:
    text: str = item["command"]
    if not text.strip():
        raise ValueError(f"command {index} is empty or blank")
    if "\0" in text:
        raise ValueError(f"command {index} holds a NUL character")
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_COMMAND_BYTES:
        raise ValueError(
            f"command {index} takes {size} bytes; the system takes {MAX_COMMAND_BYTES} at most, "
            "so write a script file and run that"
        )
    return Command(
        text,
        int(item.get("timeout_ms", DEFAULT_TIMEOUT_MS)),
        dict(item.get("env_refs", {})),
    )
