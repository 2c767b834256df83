"""What counts as an answer to a form (``raw.panel/2``).

Rules
1. An answer to a text is text, to a single select one option id, to a multi select the chosen
   ids in the order in which the form declares them, whatever order they were sent in.
2. ``free_text`` lets a person write something that is no option. It is given as plain text; a
   text that equals an option id means that option. A multi select has at most one, last.
3. A blank text or an empty selection of an optional field means "not answered", as does
   ``null``; the field is then absent from the answers.
4. All answers together, as compact JSON in UTF-8, have at most 16 KiB.

Security: an answer is typed by a person, but travels through a client. Everything that the
form does not ask for is refused, so that a tool may trust the shape.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..errors import Problem
from ..fields import did_you_mean, shown
from ..values import NotJson, escape_pointer, freeze
from .errors import PanelError
from .form_fields import MAX_ANSWER_BYTES, Form, FormField, control_characters

__all__ = ["Answers", "AnswersInvalid", "check_answers", "encoded_bytes", "smallest_answers"]

Answers: TypeAlias = "dict[str, str | list[str]]"


class AnswersInvalid(PanelError):
    """Answers do not fit their form; ``code`` is ``answers_invalid``.

    Args:
        problems: Everything that is wrong, with JSON Pointers into the answers.
    """

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        first = problems[0]
        super().__init__("answers_invalid", first.message, first.pointer)
        self.problems = problems


def encoded_bytes(value: object) -> int:
    """Return the size of a JSON value as compact UTF-8 text."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return len(text) if text.isascii() else len(text.encode("utf-8"))


def check_answers(form: Form, answers: object) -> Answers:
    """Check a person's answers and bring them into their final form.

    Args:
        form: What was asked.
        answers: By field id: a text, an option id, or a list of option ids; ``null`` and a
            missing field mean "not answered".

    Returns:
        The answers in the order of the form's fields.

    Raises:
        AnswersInvalid: With every problem found.
    """
    if not isinstance(answers, Mapping):
        raise AnswersInvalid((Problem("", "the answers must be an object"),))
    try:
        plain = freeze(dict(answers))
    except NotJson as exc:
        raise AnswersInvalid((exc.problem,)) from None
    problems: list[Problem] = []
    known = [field.id for field in form.fields]
    for key in plain:
        if key not in known:
            hint = did_you_mean(key, known) or f"; the fields are {', '.join(known)}"
            message = f"the form has no field {shown(key)}{hint}"
            problems.append(Problem(f"/{escape_pointer(key)}", message))
    out: Answers = {}
    for field in form.fields:
        check = _Check(field, f"/{escape_pointer(field.id)}", problems)
        answer = check.answer(plain.get(field.id))
        if answer is not None:
            out[field.id] = answer
    if problems:
        raise AnswersInvalid(tuple(problems))
    size = encoded_bytes(out)
    if size > MAX_ANSWER_BYTES:
        message = f"the answers have {size} bytes; the limit is {MAX_ANSWER_BYTES} in all"
        raise AnswersInvalid((Problem("", message),))
    return out


@dataclass(frozen=True, slots=True)
class _Check:
    """Checks the answer to one field, noting problems."""

    field: FormField
    pointer: str
    problems: list[Problem]

    def fail(self, message: str, at: str = "") -> None:
        self.problems.append(Problem(self.pointer + at, message))

    def answer(self, value: Any) -> str | list[str] | None:
        """Return the answer in its final form, or ``None`` when there is none."""
        if value is None:
            self._unanswered()
            return None
        if self.field.kind == "multi_select":
            return self._several(value)
        if not isinstance(value, str):
            self.fail("the answer must be a string")
            return None
        if not value.strip():
            # What a client sends for an untouched text.
            self._unanswered()
            return None
        if not self.field.takes_text:
            return self._chosen(value, "")
        if self._is_option(value):
            return value
        return self._typed(value, "")

    def _unanswered(self) -> None:
        if self.field.required:
            self.fail("needs an answer")

    def _is_option(self, value: str) -> bool:
        return any(option.id == value for option in self.field.options)

    def _chosen(self, value: str, at: str) -> str | None:
        if self._is_option(value):
            return value
        ids = [option.id for option in self.field.options]
        self.fail(f"{shown(value)} is no option{did_you_mean(value, ids)}", at)
        return None

    def _typed(self, value: str, at: str) -> str | None:
        field = self.field
        if field.multiline:
            # Browsers send CRLF for a line break in a text area.
            value = value.replace("\r\n", "\n")
        elif "\n" in value or "\r" in value:
            self.fail("must be one line", at)
            return None
        if next(control_characters(value, lines=True), None) is not None:
            self.fail("must not contain control characters", at)
            return None
        size = len(value.encode("utf-8"))
        if size > field.max_bytes:
            self.fail(f"has {size} bytes; the limit is {field.max_bytes}", at)
            return None
        return value

    def _several(self, value: Any) -> list[str] | None:
        field = self.field
        if not isinstance(value, list):
            self.fail("the answer must be a list of option ids")
            return None
        if not value and not field.required:
            return None
        if len(value) > len(field.options) + 1:
            self.fail(f"has {len(value)} entries; at most {field.max_selected} are possible")
            return None
        chosen: set[str] = set()
        typed: list[str] = []
        before = len(self.problems)
        for index, item in enumerate(value):
            self._entry(item, f"/{index}", chosen, typed)
        if len(self.problems) > before:
            return None
        count = len(chosen) + len(typed)
        if not field.min_selected <= count <= field.max_selected:
            self.fail(_count_message(count, field.min_selected, field.max_selected))
            return None
        return [option.id for option in field.options if option.id in chosen] + typed

    def _entry(self, item: Any, at: str, chosen: set[str], typed: list[str]) -> None:
        if not isinstance(item, str):
            self.fail("must be a string", at)
        elif self._is_option(item):
            if item in chosen:
                self.fail(f"{shown(item)} is chosen twice", at)
            chosen.add(item)
        elif not self.field.free_text:
            self._chosen(item, at)
        elif typed:
            self.fail("is a second text that is no option; one is possible", at)
        elif not item.strip():
            self.fail("must not be empty", at)
        else:
            text = self._typed(item, at)
            if text is not None:
                typed.append(text)


def _count_message(count: int, low: int, high: int) -> str:
    if low == high:
        return f"has {count} choices; exactly {low} must be chosen"
    return f"has {count} choices; between {low} and {high} must be chosen"


def smallest_answers(form: Form) -> Answers:
    """Return the shortest answers that ``check_answers`` accepts.

    Their size tells whether a form can be answered at all within a budget.
    """
    out: Answers = {}
    for field in form.fields:
        if not field.required:
            continue
        ids = sorted((option.id for option in field.options), key=len)
        if field.kind == "multi_select":
            texts = ["x", *ids] if field.free_text and "x" not in ids else ids
            out[field.id] = texts[: field.min_selected]
        else:
            out[field.id] = "x" if field.takes_text else ids[0]
    return out
