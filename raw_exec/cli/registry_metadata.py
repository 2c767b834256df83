"""The options that set metadata: a whole file, or single keys with their types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from .registry_access import input_name, read_text

__all__ = ["MetadataChange", "metadata_change", "metadata_options"]


@dataclass(frozen=True, slots=True)
class MetadataChange:
    """What to set and delete.

    Args:
        whole: Replace everything by ``values``.
    """

    values: dict[str, Any]
    delete: tuple[str, ...]
    whole: bool


def metadata_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--from-file``, the typed options and ``--delete``."""
    rows = (
        ("--delete", "KEY", "Remove a key; one that is not there is fine."),
        ("--boolean", "KEY=true|false", "Set a key to true or false."),
        ("--float", "KEY=NUMBER", "Set a key to a number."),
        ("--integer", "KEY=NUMBER", "Set a key to a whole number."),
        ("--string", "KEY=TEXT", "Set a key to a text."),
    )
    for name, metavar, text in rows:
        function = click.option(
            name, f"{name[2:]}_keys", metavar=metavar, multiple=True, help=text
        )(function)
    return click.option(
        "--from-file",
        metavar="FILE",
        help="Replace all of it by a YAML or JSON mapping; - is standard input.",
    )(function)


def metadata_change(from_file: str | None, keys: dict[str, tuple[str, ...]]) -> MetadataChange:
    """Return what the options ask for.

    Args:
        keys: The values of ``string_keys`` and so on.
    """
    has_keys = any(keys.values())
    values: dict[str, Any]
    if from_file is not None:
        if has_keys:
            raise click.UsageError("--from-file and the options for single keys exclude each other")
        from ..contracts.yamltext import parse_yaml

        values = parse_yaml(read_text(from_file), what=input_name(from_file))
        return MetadataChange(values, (), whole=True)
    if not has_keys:
        raise click.UsageError("nothing to set: give --from-file or an option for a key")
    values = {}
    for kind, read in _READERS.items():
        for item in keys[f"{kind}_keys"]:
            key, equals, text = item.partition("=")
            if not equals or not key:
                raise click.UsageError(f"--{kind} wants KEY=VALUE, not {item!r:.100}")
            try:
                values[key] = read(text)
            except ValueError:
                message = f"--{kind} {key}: {text!r:.60} is not {_NAMES[kind]}"
                raise click.UsageError(message) from None
    return MetadataChange(values, keys["delete_keys"], whole=False)


def _read_integer(text: str) -> int:
    if not text.removeprefix("-").isdecimal() or not text.isascii() or len(text) > 16:
        raise ValueError(text)
    return int(text)


def _read_float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")) or value != value:
        raise ValueError(text)
    return value


def _read_boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


_READERS: dict[str, Callable[[str], Any]] = {
    "string": str,
    "integer": _read_integer,
    "float": _read_float,
    "boolean": _read_boolean,
}
_NAMES = {
    "integer": "a whole number of at most 15 digits",
    "float": "a number",
    "boolean": "true or false",
}
