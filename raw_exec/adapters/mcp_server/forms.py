"""Questions and approvals as forms that an MCP client shows, and what was answered. Pure.

A form of a tool is the client's form one to one: a text, one of several, several of several.
Where the protocol has no such field (a choice that also takes a text; a list before
2025-11-25) a text is asked for, its options are in the description, and an answer is read
like a line that was typed at a terminal: by ID, label or number, separated by commas.

Security: what a tool or a model wrote is escaped wherever a person reads it. A client that
answers by itself, without a person, is trusted with every ``ask`` rule: that it has a form to
show is all that this side can know.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ...approval import Answer, ApprovalRequest, render_request
from ...errors import Problem
from ...interactions import Question
from ...interactions.rendering import parse_line
from ...panels import render_document
from ...panels.forms import FormField
from ...text import escape_text

__all__ = ["approval_form", "question_form", "read_answers", "read_approval"]

_WIDTH: Final = 100
_MAX_MESSAGE_CHARS: Final = 16_000
_NO_LISTS: Final = ("2025-06-18",)
"""Versions without a field for several choices, and with another spelling for one."""
_DECISION: Final = "decision"


def question_form(question: Question, problems: Sequence[Problem], version: str) -> dict[str, Any]:
    """Return the parameters of ``elicitation/create`` for a question.

    Args:
        problems: What was wrong with the answers before, if these are asked again.
        version: Of the protocol.
    """
    lines = [_message(question)]
    if problems:
        lines.append("the answers do not fit; please correct them:")
        lines += [f"  {_line(str(problem))}" for problem in problems]
    fields = question.form.fields
    return _form(
        "\n".join(lines),
        {field.id: _field(field, version) for field in fields},
        [field.id for field in fields if field.required],
    )


def _message(question: Question) -> str:
    shown = {**question.document}
    shown["blocks"] = [b for b in question.document["blocks"] if b.get("kind") != "form"]
    title = str(shown.get("title") or question.form.title or "a question")
    if len(shown["blocks"]) == 0:
        text = f"{_line(title)}"
        for more in (shown.get("subtitle"), question.form.title):
            if more and more != title:
                text += f"\n{_line(str(more))}"
    else:
        text = render_document(shown, title=title, width=_WIDTH)
    return f"Question from {_line(question.owner)}: {text}"


def _form(message: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    if len(message) > _MAX_MESSAGE_CHARS:
        cut = len(message) - _MAX_MESSAGE_CHARS
        message = f"{message[:_MAX_MESSAGE_CHARS]}… [{cut} more characters]"
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return {"mode": "form", "message": message, "requestedSchema": schema}


def _field(field: FormField, version: str) -> dict[str, Any]:
    out: dict[str, Any] = {"title": _line(field.label)}
    if field.kind == "text":
        # A limit of bytes is one of characters at least.
        return {"type": "string", **out, "maxLength": field.max_bytes}
    if field.free_text or (field.kind == "multi_select" and version in _NO_LISTS):
        return {"type": "string", **out, "description": _as_line(field)}
    notes = [f"{_line(o.label)}: {_line(o.description)}" for o in field.options if o.description]
    if notes:
        out["description"] = "; ".join(notes)
    if version in _NO_LISTS:
        ids = [option.id for option in field.options]
        names = [_line(option.label) for option in field.options]
        return {"type": "string", **out, "enum": ids, "enumNames": names}
    options = [{"const": option.id, "title": _line(option.label)} for option in field.options]
    if field.kind == "single_select":
        return {"type": "string", **out, "oneOf": options}
    low = field.min_selected if field.required else 0
    counts = {"minItems": low, "maxItems": field.max_selected}
    return {"type": "array", **out, **counts, "items": {"anyOf": options}}


def _as_line(field: FormField) -> str:
    options = ", ".join(f"{option.id} ({_line(option.label)})" for option in field.options)
    if field.kind == "single_select":
        return f"one of {options}, or a text of your own"
    amount = f"{field.min_selected} to {field.max_selected} of {options}, separated by commas"
    return f"{amount}; one may be a text of your own" if field.free_text else amount


def read_answers(
    question: Question, result: Mapping[str, Any], version: str
) -> dict[str, Any] | None:
    """Return the answers of an elicitation's result, ``None`` where there are none.

    Whether they fit the form is checked where they are submitted.
    """
    content = result.get("content")
    if result.get("action") != "accept" or not isinstance(content, Mapping):
        return None
    answers = dict(content)
    for field in question.form.fields:
        value = answers.get(field.id)
        if field.takes_text and isinstance(value, bool | int | float):
            # Some clients turn a typed "30" into a number, whatever the form asks for.
            value = answers[field.id] = json.dumps(value)
        typed = field.free_text or (field.kind == "multi_select" and version in _NO_LISTS)
        if typed and isinstance(value, str):
            answers[field.id] = parse_line(field, value) if value.strip() else None
    return answers


def approval_form(request: ApprovalRequest) -> dict[str, Any]:
    """Return the parameters of ``elicitation/create`` that ask whether a call may run.

    It has no default: a form that is sent back untouched allows nothing.
    """
    decision = {
        "type": "string",
        "title": "Run it?",
        "enum": ["deny", "allow"],
    }
    return _form(render_request(request), {_DECISION: decision}, [_DECISION])


def read_approval(result: Mapping[str, Any]) -> Answer:
    """Return what an elicitation's result decides; all but an explicit yes denies."""
    action, content = result.get("action"), result.get("content")
    if action == "accept" and isinstance(content, Mapping):
        if content.get(_DECISION) == "allow":
            return Answer(True)
        return Answer(False, "denied in the client")
    if action == "decline":
        return Answer(False, "the person declined to answer")
    return Answer(False, "the question was dismissed without an answer")


def _line(text: str) -> str:
    return escape_text(text, keep_newlines=False)
