"""Find the static imports and re-exports of an ECMAScript module.

Not a parser: a tokenizer that knows comments, strings, templates and regular
expressions, so that nothing inside them counts, and looks at ``import`` and ``export``
outside every bracket. Where JavaScript needs a full parser (is ``/`` a division after
``}``?) it guesses as minifiers and bundlers emit code. A wrong guess is safe: the engine
then misses a module, which is reported as unsupported, or the graph does not resolve.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Import", "LexError", "Scan", "scan_module"]


class LexError(ValueError):
    """The text is not JavaScript that this tokenizer can follow."""


@dataclass(frozen=True, slots=True)
class Import:
    """One ``import … from`` or ``export … from``.

    Args:
        specifier: The decoded string.
        start: Index of the specifier's opening quote.
        end: Index after its closing quote.
        names: Names asked of the other module (``"default"`` included).
        namespace: Local name of ``* as name``, or ``"*"`` for ``export *``.
        attributes: Span of ``with {…}``, or ``None``.
        kind: The attribute ``type``, for example ``"json"``.
    """

    specifier: str
    start: int
    end: int
    names: tuple[str, ...] = ()
    namespace: str | None = None
    attributes: tuple[int, int] | None = None
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class Scan:
    """What a module asks for, and whether its syntax says that it is a module."""

    imports: tuple[Import, ...]
    is_module: bool


_TOKEN = re.compile(
    r"""
    (?P<space>[\s\ufeff]+|//[^\n\r\u2028\u2029]*|/\*.*?\*/|\A\#![^\n\r]*)
  | (?P<string>"(?:[^"\\\n\r]|\\\r\n|\\.)*"|'(?:[^'\\\n\r]|\\\r\n|\\.)*')
  | (?P<word>\#?(?:[^\W\d]|\$|\\u)(?:[\w$\u200c\u200d]|\\u\{?[0-9A-Fa-f]+\}?)*)
  | (?P<number>\.?\d[\w.]*)
  | (?P<template>`)
  | (?P<slash>/)
  | (?P<punct>=>|\+\+|--|\?\.|\.\.\.|[^\w\s])
    """,
    re.VERBOSE | re.DOTALL,
)
_TEMPLATE_PART = re.compile(r"(?:[^`\\$]|\\.|\$(?!\{))*(`|\$\{)", re.DOTALL)
_REGEX = re.compile(r"/(?:[^/\\\[\n\r]|\\[^\n\r]|\[(?:[^\]\\\n\r]|\\[^\n\r])*\])+/[A-Za-z]*")
_LAST_OF_INTEREST = re.compile(r"\b(?:import|from|export)\b")

_BEFORE_REGEX = frozenset(
    [
        "return",
        "typeof",
        "instanceof",
        "in",
        "of",
        "new",
        "delete",
        "void",
        "throw",
        "case",
        "do",
        "else",
        "yield",
        "await",
        "extends",
    ]
)
_PAREN_HEADS = frozenset(("if", "while", "for", "with"))
_OBJECT_HEADS = frozenset(
    [
        "(",
        ",",
        "=",
        ":",
        "[",
        "!",
        "?",
        "+",
        "-",
        "*",
        "%",
        "&",
        "|",
        "^",
        "~",
        "<",
        ">",
        "?",
        "...",
    ]
)


def scan_module(text: str) -> Scan:
    """Return the static imports of ``text``, in order.

    Raises:
        LexError: At a string, template, comment or regular expression without end.
    """
    return _Scanner(text).scan()


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._imports: list[Import] = []
        self._is_module = False
        # Open brackets: the character and, for "(", the word before it; for "{", its role.
        self._open: list[tuple[str, str]] = []
        self._previous = ("", "")
        self._before_previous = ("", "")

    def scan(self) -> Scan:
        last = 0
        for match in _LAST_OF_INTEREST.finditer(self._text):
            last = match.end()
        # Nothing after the last such word can matter.
        while self._at < last:
            kind, value = self._next()
            if kind == "word" and value in ("import", "export") and self._previous[1] != ".":
                self._statement(value)
                continue
            self._push(kind, value)
        return Scan(tuple(self._imports), self._is_module)

    def _push(self, kind: str, value: str) -> None:
        if kind == "punct" and value in "([{":
            self._enter(value)
        elif kind == "punct" and value in ")]}":
            self._leave(value)
            return
        self._before_previous, self._previous = self._previous, (kind, value)

    def _enter(self, bracket: str) -> None:
        kind, word = self._previous
        note = ""
        if bracket == "(":
            note = word if kind == "word" and self._before_previous[1] != "." else ""
        elif bracket == "{":
            is_object = (kind == "punct" and word in _OBJECT_HEADS) or word in _BEFORE_REGEX - {
                "do",
                "else",
            }
            note = "object" if is_object else "block"
        self._open.append((bracket, note))

    def _leave(self, bracket: str) -> None:
        opened, note = self._open.pop() if self._open else ("", "")
        if opened == "${":
            self._template()
            return
        is_head = (bracket == ")" and note in _PAREN_HEADS) or (bracket == "}" and note == "block")
        self._before_previous = self._previous
        self._previous = ("head" if is_head else "value", bracket)

    def _next(self) -> tuple[str, str]:
        """Consume one token; spaces and comments are skipped."""
        while True:
            match = _TOKEN.match(self._text, self._at)
            if match is None:
                return "end", ""  # the token pattern matches at every other place
            kind, value = match.lastgroup or "", match.group()
            if kind == "space":
                self._at = match.end()
            elif kind == "template":
                self._at = match.end()
                self._template()
                return self._previous
            elif kind == "slash":
                return self._slash()
            elif kind == "punct" and value in "\"'":
                raise LexError(f"a string without end at character {self._at}")
            else:
                self._at = match.end()
                return kind, value

    def _template(self) -> None:
        match = _TEMPLATE_PART.match(self._text, self._at)
        if match is None:
            raise LexError(f"a template without end at character {self._at}")
        self._at = match.end()
        if match.group(1) == "${":
            self._open.append(("${", ""))
            self._previous = ("punct", ",")
        else:
            self._previous = ("value", "`")

    def _slash(self) -> tuple[str, str]:
        kind, value = self._previous
        is_regex = (
            kind in ("", "head")
            or (kind == "punct" and value not in ("++", "--"))
            or (kind == "word" and value in _BEFORE_REGEX and self._before_previous[1] != ".")
        )
        # Either error ends the scan: each such place costs a look at all that follows.
        if self._text.startswith("/*", self._at):
            raise LexError(f"a comment without end at character {self._at}")
        if not is_regex:
            self._at += 1
            return "punct", "/"
        match = _REGEX.match(self._text, self._at)
        if match is None:
            raise LexError(f"a regular expression without end at character {self._at}")
        self._at = match.end()
        return "value", "/"

    def _statement(self, word: str) -> None:
        self._previous = ("word", word)
        after = self._peek()
        if word == "import":
            if after == ("punct", "("):
                return
            if after == ("punct", "."):
                self._is_module = True
                return
        if self._open:
            return  # a property or method called import or export
        self._is_module = True
        if word == "import":
            self._import_clause()
        elif after in (("punct", "*"), ("punct", "{")):
            self._export_clause()

    def _peek(self) -> tuple[str, str]:
        at, previous, opened = self._at, self._previous, len(self._open)
        try:
            return self._next()
        finally:
            self._at, self._previous = at, previous
            del self._open[opened:]

    def _import_clause(self) -> None:
        names: list[str] = []
        namespace: str | None = None
        kind, value = self._next()
        while kind != "string":
            if value == "*":
                self._expect("as")
                namespace = self._next()[1]
            elif value == "{":
                names += self._braces()
            elif value not in (",", "from"):
                if kind != "word":
                    raise LexError(f"unexpected {value!r:.40} in an import at {self._at}")
                names.append("default")
            elif value == "from" and self._peek()[1] in (",", "from"):
                names.append("default")  # import from from "x"
            kind, value = self._next()
        self._add(value, names, namespace)

    def _export_clause(self) -> None:
        _, value = self._next()
        names: list[str] = []
        namespace: str | None = None
        if value == "*":
            namespace = "*"
            if self._peek() == ("word", "as"):
                self._next()
                self._next()
        else:
            names = self._braces()
        if self._peek() != ("word", "from"):
            self._previous = ("head", "}")
            return
        self._next()
        kind, value = self._next()
        if kind != "string":
            raise LexError(f"expected a module name at character {self._at}")
        self._add(value, names, namespace)

    def _braces(self) -> list[str]:
        """Read ``a, b as c }`` and return the names before ``as``."""
        names: list[str] = []
        while True:
            kind, value = self._next()
            if value == "}" and kind == "punct":
                return names
            if value == ",":
                continue
            if kind not in ("word", "string"):
                raise LexError(f"unexpected {value!r:.40} in an import at {self._at}")
            names.append(_decode(value) if kind == "string" else value)
            if self._peek() == ("word", "as"):
                self._next()
                self._next()

    def _expect(self, word: str) -> None:
        if self._next()[1] != word:
            raise LexError(f"expected {word!r} before character {self._at}")

    def _add(self, literal: str, names: list[str], namespace: str | None) -> None:
        end = self._at
        start = end - len(literal)
        attributes: tuple[int, int] | None = None
        kind: str | None = None
        self._previous = ("head", ";")
        if self._peek() in (("word", "with"), ("word", "assert")):
            before = self._at
            self._next()
            if self._peek() == ("punct", "{"):
                while (token := self._next()) != ("punct", "}"):
                    if token[0] == "end":
                        raise LexError("import attributes without end")
                attributes = (end, self._at)
                found = re.search(r"type[\"']?\s*:\s*[\"'](\w+)", self._text[end : self._at])
                kind = found.group(1) if found else None
            else:
                self._at = before
        self._imports.append(
            Import(_decode(literal), start, end, tuple(names), namespace, attributes, kind)
        )


_ESCAPE = re.compile(
    r"\\(?:u\{([0-9A-Fa-f]+)\}|u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|(\r\n|.))", re.DOTALL
)
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}


def _decode(literal: str) -> str:
    """Return the value of a string literal."""

    def replace(match: re.Match[str]) -> str:
        code = match.group(1) or match.group(2) or match.group(3)
        if code:
            return chr(min(int(code, 16), 0x10FFFF))
        char = match.group(4)
        return "" if char in ("\n", "\r\n", "\r") else _SIMPLE.get(char, char)

    return _ESCAPE.sub(replace, literal[1:-1])
