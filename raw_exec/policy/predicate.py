"""Predicates: does any string at a path of the arguments or effects match a pattern?

Rules and hook subscriptions use the same predicates (seed 1, "Predicates"). A predicate
is parsed without knowing any tool, then bound to one tool, which is where a path that
the tool's schema does not have becomes an error and not a silent "no match".

Security: several patterns on one path are tried in one pass by an ``re2.Set``. A set
whose automaton runs out of memory reports no match at all, so each set has a member
that matches everything: if that one is missing from the answer, the answer is void and
the patterns are tried one at a time, which cannot fail that way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

import re2

from ..errors import PolicyError
from ..schema import CompiledSchema, parse_path, resolve_string_path
from ..schema.patterns import PatternRefused, compile_pattern, pattern_options
from ..schema.problems import pointer_of

__all__ = [
    "BoundPredicate",
    "Predicate",
    "PredicateMatches",
    "PredicateSet",
    "Source",
    "bind_predicate",
    "parse_predicate",
]

Source = Literal["arguments", "effects"]
_SOURCES: Final = get_args(Source)
_FIELDS: Final = ("source", "any", "regex")

_SET_TEXT_BYTES: Final = 4096
"""Longer texts are searched pattern by pattern: a set can be far slower per byte."""


@dataclass(frozen=True, slots=True)
class Predicate:
    """A predicate as written.

    Args:
        source: ``"arguments"`` or ``"effects"``.
        any: Path of strings, for example ``"files[*].path"``.
        regex: RE2 pattern, unanchored.
    """

    source: Source
    any: str
    regex: str


@dataclass(frozen=True, slots=True)
class BoundPredicate:
    """A predicate that fits one tool's schema. Only ``bind_predicate`` makes one.

    Args:
        predicate: As written.
        steps: The path: property names, and None for each array step.
        compiled: The RE2 pattern.
    """

    predicate: Predicate
    steps: tuple[str | None, ...]
    compiled: Any = field(repr=False, compare=False)

    def match(self, value: Any) -> str | None:
        """Return the JSON Pointer of the first matching string, or None.

        Whatever is absent or of another type on the way does not match.

        Args:
            value: The arguments or the effects, whichever ``source`` names.
        """
        for text, path in _strings(value, self.steps):
            if self.compiled.search(text.encode("utf-8", "surrogatepass")) is not None:
                return pointer_of(path)
        return None


def parse_predicate(raw: object, *, where: str, rule: int | None = None) -> Predicate:
    """Read a predicate from JSON, strictly.

    Args:
        raw: ``{"source": ..., "any": ..., "regex": ...}``, nothing missing or more.
        where: What to name in errors, for example ``"tools.rules[2].when"``.
        rule: The rule's index, for errors.

    Raises:
        PolicyError: ``predicate_invalid`` or ``predicate_regex_invalid``.
    """

    def fail(message: str, hint: str | None = None) -> PolicyError:
        return PolicyError("predicate_invalid", message, where=where, hint=hint, rule=rule)

    if not isinstance(raw, dict):
        raise fail(f"a predicate must be an object, not {raw!r:.100}")
    for name in raw:
        if name not in _FIELDS:
            raise fail(f"unknown field {name!r:.100}", f"valid fields: {', '.join(_FIELDS)}")
    for name in _FIELDS:
        if name not in raw:
            raise fail(f"field {name!r} is missing")
        if not isinstance(raw[name], str):
            raise fail(f"{name!r} must be a string, not {raw[name]!r:.100}")
    if raw["source"] not in _SOURCES:
        raise fail(
            f"source {raw['source']!r:.100} is unknown", f"valid sources: {', '.join(_SOURCES)}"
        )
    if parse_path(raw["any"]) is None:
        raise fail(
            f"{raw['any']!r:.100} is not a path",
            "names joined by '.', with '[*]' for each array step",
        )
    predicate = Predicate(raw["source"], raw["any"], raw["regex"])
    _compile(predicate, where, rule)
    return predicate


def _compile(predicate: Predicate, where: str, rule: int | None) -> Any:
    try:
        return compile_pattern(predicate.regex)
    except PatternRefused as exc:
        raise PolicyError(
            "predicate_regex_invalid",
            f"regex {predicate.regex!r:.200} {exc}",
            where=where,
            hint="RE2 has no look-around and no back-references",
            rule=rule,
        ) from exc


def bind_predicate(
    predicate: Predicate,
    *,
    condition_sources: Collection[str],
    schemas: Mapping[str, CompiledSchema | None],
    where: str,
    rule: int | None = None,
) -> BoundPredicate:
    """Check a predicate against one tool.

    Args:
        predicate: What to bind.
        condition_sources: The sources that the tool lets predicates inspect.
        schemas: The tool's schema per source; None or absent if it declares none.
        where: What to name in errors: the rule or hook, and the tool.
        rule: The rule's index, for errors.

    Raises:
        PolicyError: ``predicate_source_undeclared``, ``predicate_path_unknown``,
            ``predicate_path_not_string`` or ``predicate_regex_invalid``.
    """
    schema = schemas.get(predicate.source)
    if predicate.source not in condition_sources or schema is None:
        declared = ", ".join(sorted(condition_sources)) or "none"
        raise PolicyError(
            "predicate_source_undeclared",
            f"source {predicate.source!r} cannot be inspected",
            where=where,
            hint=f"condition_sources of the tool: {declared}",
            rule=rule,
        )
    problem = resolve_string_path(schema, predicate.any)
    steps = parse_path(predicate.any)
    if problem is not None or steps is None:
        unknown = problem is None or problem.kind == "unknown"
        raise PolicyError(
            "predicate_path_unknown" if unknown else "predicate_path_not_string",
            f"path {predicate.any!r:.200} of {predicate.source}: {problem}",
            where=where,
            hint="the path must lead to a string field of the schema",
            rule=rule,
        )
    return BoundPredicate(predicate, steps, _compile(predicate, where, rule))


_Path = tuple[str | int, ...]


def _strings(
    value: Any, steps: Sequence[str | None], at: int = 0, path: _Path = ()
) -> Iterator[tuple[str, _Path]]:
    """Yield the strings at a path, in document order, each with where it is."""
    for index in range(at, len(steps)):
        step = steps[index]
        if step is None:
            if isinstance(value, list):
                for position, item in enumerate(value):
                    yield from _strings(item, steps, index + 1, (*path, position))
            return
        if not isinstance(value, dict) or step not in value:
            return
        value = value[step]
        path = (*path, step)
    if isinstance(value, str):
        yield value, path


PredicateMatches = dict[int, str]
"""Index of each predicate that matched, and the pointer of its first matching string."""


class PredicateSet:
    """Several bound predicates of one tool, evaluated together.

    Args:
        predicates: In any order; results use their indexes.
    """

    __slots__ = ("_groups",)

    def __init__(self, predicates: Sequence[BoundPredicate]) -> None:
        grouped: dict[tuple[str, tuple[str | None, ...]], list[int]] = {}
        for index, bound in enumerate(predicates):
            grouped.setdefault((bound.predicate.source, bound.steps), []).append(index)
        self._groups = tuple(
            (source, steps, _find_with([predicates[i] for i in indexes], indexes), len(indexes))
            for (source, steps), indexes in grouped.items()
        )

    def evaluate(self, sources: Mapping[str, Any]) -> PredicateMatches:
        """Return the predicates that match.

        Args:
            sources: The value per source; one that is absent or None does not match.
        """
        matches: PredicateMatches = {}
        for source, steps, find, size in self._groups:
            value = sources.get(source)
            if value is None:
                continue
            left = size
            for text, path in _strings(value, steps):
                for index in find(text.encode("utf-8", "surrogatepass")):
                    if index not in matches:
                        matches[index] = pointer_of(path)
                        left -= 1
                if not left:
                    break
        return matches


def _find_with(
    predicates: Sequence[BoundPredicate], indexes: Sequence[int]
) -> Callable[[bytes], list[int]]:
    """Return a function from a text to the indexes of the predicates that match it."""
    pairs = [(bound.compiled, index) for bound, index in zip(predicates, indexes, strict=True)]

    def each(text: bytes) -> list[int]:
        return [index for compiled, index in pairs if compiled.search(text) is not None]

    together = _build_set([bound.predicate.regex for bound in predicates])
    if together is None:
        return each
    sentinel = len(pairs)
    match = together.Match

    def at_once(text: bytes) -> list[int]:
        if len(text) > _SET_TEXT_BYTES:
            return each(text)
        found = match(text)
        if not found or sentinel not in found:
            return each(text)
        return [indexes[i] for i in found if i != sentinel]

    return at_once


def _build_set(patterns: Sequence[str]) -> Any:
    """Return a set of the patterns and of the one that matches all; None if it is too large.

    Also for a single pattern: a set's answer costs half of a search's match object.
    """
    together = re2.Set.SearchSet(pattern_options())
    try:
        for pattern in (*patterns, ""):
            together.Add(pattern)
        together.Compile()
    except re2.error:
        return None
    return together
