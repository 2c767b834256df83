"""Read a Mustache template into the tags that matter for its inputs.

Literal text is skipped. Beyond Mustache's own tags there are directives, which render to
nothing: ``{{@type T}}``, ``{{@doc …}}`` and ``{{@optional}}`` describe the variable before
them or the section they open, and ``{{@outputSchema}}`` stands for the output schema.

Contract source: registry wire interface §4.7; the annotations as the public CLI documents
them in ``skill``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ..errors import Invalid

__all__ = ["Directive", "Node", "Partial", "Section", "Variable", "parse_template"]

_NAME: Final = re.compile(r"\.|[^\s.{}#^/>&!@=<%]+(?:\.[^\s.{}#^/>&!@=<%]+)*")
_PARTIAL: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_DELIMITERS: Final = re.compile(r"\s*([^\s=]{1,8})\s+([^\s=]{1,8})\s*")
_MAX_DEPTH: Final = 32
_MAX_TAGS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Directive:
    """``{{@word argument}}``."""

    word: str
    argument: str
    line: int


@dataclass(slots=True)
class Variable:
    """``{{name}}``, ``{{{name}}}`` or ``{{&name}}`` with its directives."""

    name: str
    line: int
    directives: list[Directive] = field(default_factory=list)


@dataclass(slots=True)
class Section:
    """``{{#name}}…{{/name}}``, or ``{{^name}}…{{/name}}``, with its directives."""

    name: str
    line: int
    is_inverted: bool
    directives: list[Directive] = field(default_factory=list)
    children: list[Node] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Partial:
    """``{{> name}}``: another file of the same version."""

    name: str
    line: int


Node: TypeAlias = Variable | Section | Partial | Directive


def parse_template(text: str, *, where: str) -> list[Node]:
    """Return the tags of a template. A directive that describes nothing stays a node.

    Args:
        where: The file's name, for messages.

    Raises:
        Invalid: ``bad_template``, for a template that no Mustache engine would render.
    """
    return _Parser(text, where).parse()


class _Parser:
    def __init__(self, text: str, where: str) -> None:
        self._text = text
        self._where = where
        self._open, self._close = "{{", "}}"
        self._root: list[Node] = []
        self._sections: list[Section] = []
        self._target: Variable | Section | None = None
        self._line = 1
        self._counted = 0

    def parse(self) -> list[Node]:
        position = tags = 0
        while (start := self._text.find(self._open, position)) >= 0:
            tags += 1
            if tags > _MAX_TAGS:
                raise self._bad(start, f"has more than {_MAX_TAGS} tags", "split it")
            position = self._tag(start)
        if self._sections:
            open_one = self._sections[-1]
            raise self._bad_line(
                open_one.line,
                f"opens section {open_one.name!r} and never closes it",
                f"add {{{{/{open_one.name}}}}}",
            )
        return self._root

    def _tag(self, start: int) -> int:
        inside = start + len(self._open)
        sigil = self._text[inside : inside + 1]
        close = self._close
        if sigil == "{" and self._open == "{{":
            close = "}}}"
        elif sigil == "=":
            close = "=" + self._close
        end = self._text.find(close, inside + (1 if sigil in "{=" else 0))
        if end < 0:
            raise self._bad(start, f"opens a tag that never ends with {close}", "close it")
        self._line_of(start)
        has_sigil = sigil != "" and sigil in "{=#^/>&!@"
        body = self._text[inside + has_sigil : end]
        self._handle(sigil if has_sigil else "", body, start)
        return end + len(close)

    def _handle(self, sigil: str, body: str, start: int) -> None:
        name = body.strip()
        line = self._line
        if sigil == "!":
            return
        if sigil == "=":
            found = _DELIMITERS.fullmatch(body)
            if not found:
                raise self._bad(start, f"sets delimiters with {body!a:.40}", "write {{=<% %>=}}")
            self._open, self._close = found.groups()
        elif sigil == "@":
            word, _, argument = name.partition(" ")
            self._directive(Directive(word, argument.strip(), line))
        elif sigil == ">":
            if not _PARTIAL.fullmatch(name):
                raise self._bad(start, f"includes a file called {name!a:.40}", "name a file of it")
            self._add(Partial(name, line))
            self._target = None
        elif not _NAME.fullmatch(name):
            raise self._bad(start, f"has a tag with the name {name!a:.40}", "write one name in it")
        elif sigil == "/":
            self._end_section(name, start)
        elif sigil in {"#", "^"}:
            self._start_section(Section(name, line, sigil == "^"), start)
        else:
            self._target = Variable(name, line)
            self._add(self._target)

    def _directive(self, directive: Directive) -> None:
        if self._target is None or directive.word == "outputSchema":
            self._add(directive)
        else:
            self._target.directives.append(directive)

    def _start_section(self, section: Section, start: int) -> None:
        if len(self._sections) >= _MAX_DEPTH:
            raise self._bad(start, f"nests sections more than {_MAX_DEPTH} deep", "nest less")
        self._add(section)
        self._sections.append(section)
        self._target = section

    def _end_section(self, name: str, start: int) -> None:
        if not self._sections:
            raise self._bad(start, f"closes section {name!r}, which is not open", "remove the tag")
        section = self._sections.pop()
        if section.name != name:
            raise self._bad(
                start,
                f"closes section {name!r} inside section {section.name!r}",
                f"close {section.name!r} first",
            )
        self._target = section

    def _add(self, node: Node) -> None:
        (self._sections[-1].children if self._sections else self._root).append(node)

    def _line_of(self, position: int) -> None:
        self._line += self._text.count("\n", self._counted, position)
        self._counted = position

    def _bad(self, start: int, problem: str, hint: str) -> Invalid:
        return self._bad_line(self._text.count("\n", 0, start) + 1, problem, hint)

    def _bad_line(self, line: int, problem: str, hint: str) -> Invalid:
        return Invalid("bad_template", f"file {self._where!r}, line {line}, {problem}", hint=hint)
