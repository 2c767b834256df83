"""What one request may ask for, checked before anything of it runs.

A short document can stand for endless work: fields nest, aliases repeat a field, fragments
multiply both. So a document is measured as if its fragments were written out, in one pass
that visits each fragment once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLError,
    GraphQLSyntaxError,
    InlineFragmentNode,
    OperationDefinitionNode,
    SelectionSetNode,
    parse,
)

from ..errors import Invalid

__all__ = ["Budget", "ServerLimits", "parse_document"]

_MAX_DEFINITIONS: Final = 50
"""Operations and fragments; validation compares fragments pairwise."""

_MAX_SAME_NAME: Final = 20
"""Fields of one response name side by side; validation compares them pairwise."""

_REFUSED: Final = "BAD_USER_INPUT"
_UNREADABLE: Final = "query is nested too deeply to be read"


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Bounds of the server. Bytes, seconds and counts.

    Args:
        body_bytes: One request's body; a prompt file of the largest size fits, escaped.
        query_bytes: The GraphQL document alone.
        tokens: Of the document. Installing asks for one aliased field per prompt.
        depth: Nesting of fields; the deepest that a known client asks for is 7.
        aliases: Renamed fields.
        fields: All fields, aliased or not.
        work: Operations of the service plus entries of the pages that they may return.
        request_seconds: After that long no further operation of a request begins.
        body_seconds: How long a client may take to send a body.
        threads: Requests that run at the same time.
        waiting: Requests that may wait for a thread.
        burst: Requests that one key, or one address without a key, may send at once.
        per_second: Requests that it may send in the long run.
        buckets: Keys and addresses that are remembered.
    """

    body_bytes: int = 4 * 1024 * 1024
    query_bytes: int = 256 * 1024
    tokens: int = 10_000
    depth: int = 10
    aliases: int = 500
    fields: int = 2_000
    work: int = 3_000
    request_seconds: float = 10.0
    body_seconds: float = 30.0
    threads: int = 8
    waiting: int = 256
    burst: int = 300
    per_second: float = 20.0
    buckets: int = 10_000


class Budget:
    """Work that one request may still do.

    Args:
        now: A monotonic clock, in seconds.
    """

    def __init__(self, limits: ServerLimits, now: Callable[[], float]) -> None:
        self._limits = limits
        self._left = limits.work
        self._now = now
        self._deadline = now() + limits.request_seconds

    def spend(self, cost: int) -> None:
        """Pay for an operation before it begins.

        Raises:
            Invalid: ``request_too_expensive`` or ``request_too_slow``.
        """
        self._left -= cost
        if self._left < 0:
            raise Invalid(
                "request_too_expensive",
                f"this request asks for more than {self._limits.work} entries and operations",
                hint="ask for smaller pages, or in several requests",
            )
        if self._now() >= self._deadline:
            raise Invalid(
                "request_too_slow",
                f"this request took more than {self._limits.request_seconds:g} s",
                hint="ask for less at once, or try again when the registry is less busy",
            )


def _refusal(rule: str, message: str) -> GraphQLError:
    """Return the error for a document that is too big in some way."""
    return GraphQLError(message, extensions={"code": _REFUSED, "rule": rule})


def parse_document(text: str, limits: ServerLimits) -> DocumentNode:
    """Parse a document and check that it is within the limits.

    Raises:
        GraphQLError: It is no GraphQL, or too big in some way.
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > limits.query_bytes:
        raise _over("query_too_long", "query", size, "bytes", limits.query_bytes)
    try:
        document = parse(text, no_location=False, max_tokens=limits.tokens)
    except RecursionError:
        raise _refusal("query_too_deep", _UNREADABLE) from None
    except GraphQLSyntaxError as exc:
        if "nested too deeply" in exc.message:
            raise _refusal("query_too_deep", _UNREADABLE) from None
        if f"{limits.tokens} tokens" in exc.message:
            message = f"query has more than {limits.tokens} tokens; send it in parts"
            raise _refusal("query_too_many_tokens", message) from None
        raise
    _Measure(document, limits).check()
    return document


def _over(rule: str, what: str, found: int, unit: str, limit: int) -> GraphQLError:
    return _refusal(rule, f"{what} has {found} {unit}; at most {limit} are allowed")


@dataclass(frozen=True, slots=True)
class _Size:
    depth: int = 0
    aliases: int = 0
    fields: int = 0


class _Measure:
    """Sizes of a document's operations, with fragments written out."""

    def __init__(self, document: DocumentNode, limits: ServerLimits) -> None:
        self._document = document
        self._limits = limits
        self._fragments = {
            node.name.value: node
            for node in document.definitions
            if isinstance(node, FragmentDefinitionNode)
        }
        self._known: dict[str, _Size] = {}
        self._open: set[str] = set()

    def check(self) -> None:
        """Raise ``GraphQLError`` when one limit is passed."""
        definitions = self._document.definitions
        if len(definitions) > _MAX_DEFINITIONS:
            raise _over(
                "query_too_many_definitions",
                "query",
                len(definitions),
                "operations and fragments",
                _MAX_DEFINITIONS,
            )
        total = _Size()
        for node in definitions:
            if isinstance(node, OperationDefinitionNode):
                total = _add(total, self._of(node.selection_set))
            elif isinstance(node, FragmentDefinitionNode):
                self._of_fragment(node.name.value)  # unused ones are validated too
        limits = self._limits
        if total.depth > limits.depth:
            raise _over("query_too_deep", "query", total.depth, "levels of fields", limits.depth)
        if total.aliases > limits.aliases:
            raise _over("query_too_many_aliases", "query", total.aliases, "aliases", limits.aliases)
        if total.fields > limits.fields:
            raise _over("query_too_many_fields", "query", total.fields, "fields", limits.fields)

    def _of(self, selections: SelectionSetNode | None) -> _Size:
        total = _Size()
        if selections is None:
            return total
        names: dict[str, int] = {}
        for node in selections.selections:
            if isinstance(node, FieldNode):
                name = (node.alias or node.name).value
                names[name] = names.get(name, 0) + 1
                inner = self._of(node.selection_set)
                own = _Size(inner.depth + 1, inner.aliases + bool(node.alias), inner.fields + 1)
                total = _add(total, own)
            elif isinstance(node, InlineFragmentNode):
                total = _add(total, self._of(node.selection_set))
            elif isinstance(node, FragmentSpreadNode):
                names[f"...{node.name.value}"] = names.get(f"...{node.name.value}", 0) + 1
                total = _add(total, self._of_fragment(node.name.value))
        worst = max(names.values(), default=0)
        if worst > _MAX_SAME_NAME:
            raise _over(
                "query_too_repetitive", "query", worst, "fields of one name", _MAX_SAME_NAME
            )
        return total

    def _of_fragment(self, name: str) -> _Size:
        known = self._known.get(name)
        if known is not None:
            return known
        node = self._fragments.get(name)
        if node is None or name in self._open:
            return _Size()  # validation tells about unknown ones and about cycles
        self._open.add(name)
        size = self._of(node.selection_set)
        self._open.discard(name)
        self._known[name] = size
        return size


def _add(one: _Size, other: _Size) -> _Size:
    return _Size(
        max(one.depth, other.depth), one.aliases + other.aliases, one.fields + other.fields
    )
