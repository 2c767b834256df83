"""A server's question to a person, as a form of this package, and the way back.

The protocol's form is flat: texts, numbers, yes or no, choices. Numbers are asked for as text and
read afterwards; an answer that does not fit its field is asked for again, a few times.

Not covered: questions by URL. They are declined, since nobody here can say what happens there.
"""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..errors import SchemaError
from ..panels.form_fields import MAX_FIELDS, MAX_OPTIONS, MAX_TEXT_BYTES
from ..pool import RequestRefused
from ..schema import CompiledSchema, compile_schema
from ..text import escape_text

__all__ = ["CANCELLED", "DECLINED", "NotAskable", "ask_person"]

PANEL: Final = "question"
"""The panel that questions of a server stand in."""
DECLINED: Final[Mapping[str, Any]] = {"action": "decline"}
CANCELLED: Final[Mapping[str, Any]] = {"action": "cancel"}

_MAX_ATTEMPTS: Final = 3
_MAX_MESSAGE_CHARS = 8000
_MAX_LABEL_CHARS = 200


class NotAskable(Exception):
    """A question has a form that can't be shown here."""


@dataclass(frozen=True, slots=True)
class _Field:
    """One question.

    Args:
        name: The server's name of it.
        shape: The field of our form, without its ID.
        kind: The type of the answer: ``string``, ``number``, ``integer``, ``boolean``, ``choice``
            or ``choices``.
        values: What each option ID means.
    """

    name: str
    shape: Mapping[str, Any]
    kind: str
    values: Mapping[str, str]


async def ask_person(
    params: Mapping[str, Any], ask: Callable[[Any], Awaitable[Any]]
) -> Mapping[str, Any]:
    """Ask, and return the result of ``elicitation/create``.

    Args:
        params: As the server sent them.
        ask: Answers ``interactions.request``.

    Raises:
        NotAskable: The question can't be shown.
        RequestRefused: There is no answer, but for a person who declines.
    """
    if params.get("mode", "form") != "form":
        raise NotAskable("questions by URL are declined")
    schema = params.get("requestedSchema")
    if not isinstance(schema, dict):
        raise NotAskable("the question has no form")
    fields = _read_fields(schema)
    try:
        compiled = compile_schema({**schema, "type": "object"})
    except SchemaError as exc:
        raise NotAskable(f"the form of the question is refused: {exc.message}") from None
    trouble = ""
    for _attempt in range(_MAX_ATTEMPTS):
        document = _document(str(params.get("message", "")), fields, trouble)
        try:
            answered = await ask({"panel": PANEL, "document": document})
        except RequestRefused as exc:
            if exc.code == "interaction_cancelled":
                return DECLINED
            raise
        content, trouble = _read_answers(fields, answered["answers"], compiled)
        if not trouble:
            return {"action": "accept", "content": content}
    return CANCELLED


def _read_fields(schema: Mapping[str, Any]) -> list[_Field]:
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not 0 < len(properties) <= MAX_FIELDS:
        raise NotAskable(f"a question has 1 to {MAX_FIELDS} fields")
    required = schema.get("required")
    wanted = required if isinstance(required, list) else []
    return [_read_field(name, item, name in wanted) for name, item in properties.items()]


def _read_field(name: str, item: Any, required: bool) -> _Field:
    if not isinstance(item, dict):
        raise NotAskable(f"field {name!r:.60} is no schema")
    label = _shown(str(item.get("title") or name), _MAX_LABEL_CHARS)
    shape: dict[str, Any] = {"label": label, "required": required}
    kind = item.get("type")
    if kind == "boolean":
        shape |= {"kind": "single_select", "options": _options(["yes", "no"])}
        return _Field(name, shape, "boolean", {"o0": "true", "o1": "false"})
    choices = _choices(item)
    if kind == "array":
        inner = item.get("items")
        choices = _choices(inner) if isinstance(inner, dict) else None
    if choices is not None:
        values, labels = choices
        if not 0 < len(values) <= MAX_OPTIONS:
            raise NotAskable(f"field {name!r:.60} has over {MAX_OPTIONS} choices, or none")
        shape["options"] = _options(labels)
        shape["kind"] = "multi_select" if kind == "array" else "single_select"
        if kind == "array":
            shape["min_selected"], shape["max_selected"] = 0, len(values)
            if required:
                shape["min_selected"] = 1
        ids = {f"o{index}": value for index, value in enumerate(values)}
        return _Field(name, shape, "choices" if kind == "array" else "choice", ids)
    if kind not in ("string", "number", "integer"):
        raise NotAskable(f"field {name!r:.60} is of a type that can't be asked for")
    shape |= {"kind": "text", "max_bytes": MAX_TEXT_BYTES}
    return _Field(name, shape, kind, {})


def _choices(item: Mapping[str, Any]) -> tuple[list[str], list[str]] | None:
    """Return values and labels of a schema that lists its values, in any of the forms."""
    listed = item.get("enum")
    if isinstance(listed, list) and all(isinstance(value, str) for value in listed):
        names = item.get("enumNames")
        named = isinstance(names, list) and len(names) == len(listed)
        return listed, [str(name) for name in names] if named and names else listed
    for key in ("oneOf", "anyOf"):
        entries = item.get(key)
        if isinstance(entries, list) and entries:
            constants = [entry.get("const") for entry in entries if isinstance(entry, dict)]
            if len(constants) == len(entries) and all(isinstance(c, str) for c in constants):
                labels = [str(entry.get("title") or entry["const"]) for entry in entries]
                return [str(constant) for constant in constants], labels
    return None


def _options(labels: list[str]) -> list[dict[str, str]]:
    return [
        {"id": f"o{index}", "label": _shown(label, _MAX_LABEL_CHARS)}
        for index, label in enumerate(labels)
    ]


def _document(message: str, fields: list[_Field], trouble: str) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = []
    text = _shown(message, _MAX_MESSAGE_CHARS, lines=True)
    if trouble:
        text += f"\n\nThe last answer did not fit: {trouble}"
    if text.strip():
        blocks.append({"id": "message", "kind": "markdown", "text": text})
    form = [{"id": f"f{index}", **field.shape} for index, field in enumerate(fields)]
    blocks.append({"id": "form", "kind": "form", "fields": form})
    return {"title": "A tool's server asks", "blocks": blocks}


def _read_answers(
    fields: list[_Field], answers: Mapping[str, Any], schema: CompiledSchema
) -> tuple[dict[str, Any], str]:
    """Return the content for the server, and what is wrong with it in words, or ``""``."""
    content: dict[str, Any] = {}
    for index, field in enumerate(fields):
        given = answers.get(f"f{index}")
        if given is None:
            continue
        if field.kind == "boolean":
            content[field.name] = field.values[given] == "true"
        elif field.kind == "choice":
            content[field.name] = field.values[given]
        elif field.kind == "choices":
            content[field.name] = [field.values[one] for one in given]
        elif field.kind == "string":
            content[field.name] = given
        else:
            number = _number(given, field.kind)
            if number is None:
                wanted = "a whole number" if field.kind == "integer" else "a number"
                return content, f"{field.shape['label']} must be {wanted}"
            content[field.name] = number
    problems = schema.problems(content, limit=1)
    return content, f"{problems[0].pointer}: {problems[0].message}" if problems else ""


def _number(text: str, kind: str) -> int | float | None:
    try:
        value = json.loads(text.strip().removeprefix("+"))
    except ValueError:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    if kind == "integer":
        return int(value) if float(value).is_integer() else None
    return value


def _shown(text: str, max_chars: int, *, lines: bool = False) -> str:
    text = escape_text(text, keep_newlines=lines)
    return text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"
