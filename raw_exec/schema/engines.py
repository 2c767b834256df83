"""What the two engines are given: one schema, rewritten so that both must agree.

Differences between the copy and the author's document:

* only keywords that the dialect table knows are kept (no ``format``, no content
  keywords, nothing of another draft), so a keyword counts in both engines or in none;
* every reference, and every place that is referred to, goes through ``$defs/<n>``,
  so no engine resolves names, anchors or bases;
* for the fast engine, patterns are rewritten into the portable language, or turned
  into a keyword that asks RE2.

Security: neither engine can fetch anything. The copy has local references only, the
fast engine is told to stay offline, and the reference gets an empty registry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import jsonschema_rs

from .dialect import DRAFT_07, DRAFT_2020_12, Dialect, Shape
from .nodes import Node
from .patterns import MAX_NATIVE_SIZE, compile_pattern, portable_pattern

__all__ = ["FastEngine", "SearchBudget", "build_document", "build_fast"]

_RE2_KEYWORD: Final = "raw-exec-re2"
_REGEX_BYTES: Final = 4 * 1024 * 1024

MAX_SEARCH_UNITS: Final = 100_000_000
"""Instructions of a pattern times bytes of text, all searches of one check together."""

MAX_NATIVE_CHARACTERS: Final = 256

_VALIDATORS: Final = {
    DRAFT_07.name: jsonschema_rs.Draft7Validator,
    DRAFT_2020_12.name: jsonschema_rs.Draft202012Validator,
}


class SearchBudget:
    """What the searches by RE2 during one check may cost together.

    A search is linear in the text, but also in the size of the pattern: a bounded
    repetition of 900 over 1 MiB takes RE2 30 seconds (measured). Once ``left`` is
    negative the verdict is void, since a search that did not happen may be under a
    ``not``. One budget serves one schema; two threads that share a schema share the
    budget, and at worst refill it for each other.
    """

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_SEARCH_UNITS

    def refill(self) -> None:
        self.left = MAX_SEARCH_UNITS


@dataclass(frozen=True, slots=True)
class FastEngine:
    """A schema compiled by the fast engine.

    Args:
        validator: The engine's own object.
        budget: To refill before each check.
    """

    validator: Any
    budget: SearchBudget


def _re2_keyword(budget: SearchBudget) -> type:
    """Return the fast engine's way back to RE2: a class, as that engine wants it."""

    class Re2Keyword:
        def __init__(self, _parent: object, pattern: str, _path: object) -> None:
            self._compiled = compile_pattern(pattern)
            self._size = self._compiled.programsize

        def validate(self, instance: object) -> None:
            if not isinstance(instance, str):
                return
            text = instance.encode("utf-8", "surrogatepass")
            budget.left -= self._size * len(text)
            if budget.left < 0:
                raise ValueError("too much text for such a pattern")
            if self._compiled.search(text) is None:
                raise ValueError("does not match")

    return Re2Keyword


def build_document(root: Node, nodes: dict[str, Node], dialect: Dialect, *, fast: bool) -> Any:
    """Return the rewritten schema document for one engine.

    Args:
        root: The node at pointer ``""``.
        nodes: Every node of the document, references linked.
        dialect: The document's dialect.
        fast: For the fast engine, rather than for the reference.
    """
    return _Writer(nodes, dialect, fast).write(root)


class _Writer:
    def __init__(self, nodes: dict[str, Node], dialect: Dialect, fast: bool) -> None:
        self.dialect = dialect
        self.fast = fast
        self.container = "definitions" if dialect is DRAFT_07 else "$defs"
        self.names: dict[int, str] = {}
        for node in nodes.values():
            for edge in node.edges:
                if edge.keyword == "$ref":
                    self.names.setdefault(id(edge.target), str(len(self.names)))
        self.targets = [node for node in nodes.values() if id(node) in self.names]

    def write(self, root: Node) -> Any:
        if not self.names:
            return self._schema(root)
        definitions = {self.names[id(node)]: self._schema(node) for node in self.targets}
        body = self._subschema(root)
        if not isinstance(body, dict) or (self.dialect.ref_hides_siblings and "$ref" in body):
            body = {"allOf": [body]}
        return {**body, self.container: definitions}

    def _reference(self, node: Node) -> dict[str, Any]:
        return {"$ref": f"#/{self.container}/{self.names[id(node)]}"}

    def _subschema(self, node: Node) -> Any:
        return self._reference(node) if id(node) in self.names else self._schema(node)

    def _schema(self, node: Node) -> Any:
        schema = node.schema
        if not isinstance(schema, dict):
            return schema
        out: dict[str, Any] = {}
        for edge in node.edges:
            if edge.keyword == "$ref":
                out["$ref"] = self._reference(edge.target)["$ref"]
        if "$ref" in out and self.dialect.ref_hides_siblings:
            return out
        targets = {(e.keyword, e.key): e.target for e in node.edges}
        for keyword, value in schema.items():
            shape = self.dialect.keywords.get(keyword)
            if shape is None or shape is Shape.DEFINITIONS:
                continue
            if shape is Shape.ASSERTION:
                if keyword != "pattern" or not self.fast:
                    out[keyword] = value
            elif (keyword, None) in targets:
                out[keyword] = self._subschema(targets[keyword, None])
            elif isinstance(value, list):
                out[keyword] = [self._subschema(targets[keyword, i]) for i in range(len(value))]
            else:
                out[keyword] = {
                    self._key(keyword, name): (
                        self._subschema(targets[keyword, name])
                        if (keyword, name) in targets
                        else item
                    )
                    for name, item in value.items()
                }
        if self.fast and "pattern" in schema:
            self._add_pattern(out, schema["pattern"])
        return out

    def _key(self, keyword: str, name: str) -> str:
        if self.fast and keyword == "patternProperties":
            # Invariant: the rule `key_pattern` refused every key that has no portable form.
            return portable_pattern(name) or name
        return name

    def _add_pattern(self, out: dict[str, Any], pattern: str) -> None:
        portable = portable_pattern(pattern)
        if portable is None or compile_pattern(pattern).programsize > MAX_NATIVE_SIZE:
            out[_RE2_KEYWORD] = pattern
            return
        # Only a short text is given to an engine that has no budget.
        choice = {
            "if": {"maxLength": MAX_NATIVE_CHARACTERS},
            "then": {"pattern": portable},
            "else": {_RE2_KEYWORD: pattern},
        }
        out["allOf"] = [*out.get("allOf", ()), choice]


def build_fast(document: Any, dialect: Dialect) -> FastEngine:
    """Compile a rewritten document with the fast engine.

    Raises:
        ValueError: When that engine refuses it, for example over the size of a pattern.
    """
    budget = SearchBudget()
    validator = _VALIDATORS[dialect.name](
        document,
        validate_formats=False,
        offline=True,
        mask="the value",
        pattern_options=jsonschema_rs.RegexOptions(
            size_limit=_REGEX_BYTES, dfa_size_limit=_REGEX_BYTES
        ),
        keywords={_RE2_KEYWORD: _re2_keyword(budget)},
    )
    return FastEngine(validator, budget)
