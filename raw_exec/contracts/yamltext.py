"""YAML of dumped folders: read strictly, written so that any reader reads it alike.

Read is the core schema of YAML 1.2: ``yes`` and ``2026-01-02`` are texts. What the 1.1 rules
would take for something else is quoted when it is written.

Security: anchors, aliases and tags are refused, so a small text can not become a large value
or anything but JSON data.

Contract source: seed 3, "Authoring from the CLI"; registry wire interface §5.5, §5.7.
"""

from __future__ import annotations

import re
from typing import Any, Final

import yaml

from .errors import Invalid

__all__ = ["parse_yaml", "write_yaml"]

_MAX_DEPTH: Final = 64
_JSON: Final = {
    "null": re.compile(r"~|null|Null|NULL|"),
    "bool": re.compile(r"true|True|TRUE|false|False|FALSE"),
    "int": re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"),
    "float": re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"),
}


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]  # has no types
    """Quotes what either version of YAML would not read as a text."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        # Lists are indented below their key, where people look for them.
        super().increase_indent(flow, False)


for _name, _pattern in _JSON.items():
    _Dumper.add_implicit_resolver(
        f"tag:yaml.org,2002:{_name}-1.2", re.compile(rf"(?:{_pattern.pattern})\Z"), None
    )
_Dumper.add_implicit_resolver("tag:yaml.org,2002:bool-1.1", re.compile(r"[yYnN]\Z"), None)
del _name, _pattern


def _represent_text(dumper: _Dumper, text: str) -> Any:
    # Unquoted and single-quoted, YAML's readers take these for ordinary line breaks.
    style = '"' if any(char in text for char in "\r\x85\u2028\u2029\ufeff") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def write_yaml(value: dict[str, Any]) -> str:
    """Return JSON data as block-style YAML with sorted keys."""
    return str(
        yaml.dump(
            value,
            Dumper=_Dumper,
            sort_keys=True,
            indent=2,
            allow_unicode=True,
            default_flow_style=False,
            width=1_000_000,
        )
    )


def parse_yaml(text: str, *, what: str) -> dict[str, Any]:
    """Return the mapping in a text. JSON is YAML, too.

    Args:
        what: What it is, for messages.

    Raises:
        Invalid: ``bad_yaml``, with line and column.
    """
    try:
        _check_events(text, what)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        value = {} if node is None else _value(node, what)
    except yaml.reader.ReaderError as exc:
        raise _bad(what, "has characters that YAML does not allow", None) from exc
    except yaml.YAMLError as exc:
        mark = getattr(exc, "problem_mark", None)
        raise _bad(what, getattr(exc, "problem", None) or "can not be read", mark) from exc
    if not isinstance(value, dict):
        raise _bad(what, "is not a mapping", None)
    return value


def _check_events(text: str, what: str) -> None:
    """Refuse what makes more of a text than it says, before anything recurses into it."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise _bad(what, "has an anchor or alias", event.start_mark)
        if getattr(event, "tag", None) is not None:
            raise _bad(what, "has a tag", event.start_mark)
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH:
            raise _bad(what, f"is nested deeper than {_MAX_DEPTH}", event.start_mark)


def _bad(what: str, problem: str, mark: yaml.Mark | None) -> Invalid:
    place = "" if mark is None else f" (line {mark.line + 1}, column {mark.column + 1})"
    return Invalid(
        "bad_yaml", f"{what}: {problem}{place}", hint="write a plain YAML or JSON mapping"
    )


def _value(node: yaml.Node, what: str) -> Any:
    if isinstance(node, yaml.MappingNode):
        out: dict[str, Any] = {}
        for key_node, item in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if key is None:
                raise _bad(what, "has a key that is not a text", key_node.start_mark)
            if key in out:
                raise _bad(what, f"has the key {key!a:.80} twice", key_node.start_mark)
            out[key] = _value(item, what)
        return out
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, what) for item in node.value]
    assert isinstance(node, yaml.ScalarNode)  # noqa: S101 - there are no other nodes
    return _scalar(node, what)


def _scalar(node: yaml.ScalarNode, what: str) -> Any:
    text = str(node.value)
    if node.style is not None:
        return text
    kind = next((name for name, pattern in _JSON.items() if pattern.fullmatch(text)), "str")
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() == "true"
    try:
        if kind == "int":
            return int(text, 0 if text[:2] in ("0o", "0x") else 10)
        if kind == "float":
            return float(text)
    except ValueError as exc:
        raise _bad(what, "has a number that is too long", node.start_mark) from exc
    return text
