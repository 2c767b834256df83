"""Compile a schema once; check many values fast; explain the bad ones exactly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import jsonschema_rs

from ..errors import Problem, SchemaError
from ..values import JsonValue, NotJson, freeze, thaw
from .dialect import Dialect
from .engines import FastEngine, build_document, build_fast
from .nodes import Node, collect
from .problems import SchemaProblem, explain, flatten, pointer_of, preview
from .reference import (
    MAX_REFERENCE_VALUES,
    iter_reference_errors,
    meta_problems,
)
from .rules import (
    SchemaRefusal,
    choose_dialect,
    find_keyword_problems,
    find_pattern_problems,
    find_shape_problem,
    resolve_references,
)
from .steps import OutOfSteps
from .work import Cost, count_values, find_excess, measure_plain, measure_schema

__all__ = ["CompiledSchema", "compile_schema"]

_MAX_LOAD_PROBLEMS: Final = 64
_DEFAULT_LIMIT: Final = 64


class CompiledSchema:
    """A schema that passed every load rule, ready to check values.

    Values must be JSON as ``raw_exec.values.freeze`` accepts it. ``format`` is an
    annotation and never checked.

    Not protected against: a value that is valid but absurd; the schema's author
    decides what is valid.

    Attributes:
        dialect: The dialect that the schema is written in.
        disagreements: How often the two engines gave different verdicts.
    """

    __slots__ = (
        "_cost",
        "_fast_engine",
        "_nodes",
        "_reference_document",
        "dialect",
        "disagreements",
        "root",
    )

    def __init__(self, nodes: dict[str, Node], dialect: Dialect, cost: Cost) -> None:
        self.root = nodes[""]
        self.dialect = dialect
        self.disagreements = 0
        self._nodes = nodes
        self._cost = cost
        self._fast_engine: FastEngine | None = None
        self._reference_document: JsonValue = None

    def _fast(self) -> FastEngine:
        """Return the fast engine, compiled when it is first needed.

        Of ten thousand tools few are called, and compiling is a quarter of loading one.

        Raises:
            ValueError: The engine refuses the schema. Only a pattern can make it, and
                schemas with patterns are compiled when they are loaded.
        """
        engine = self._fast_engine
        if engine is None:
            document = build_document(self.root, self._nodes, self.dialect, fast=True)
            engine = self._fast_engine = build_fast(document, self.dialect)
        return engine

    def _reference(self) -> JsonValue:
        if self._reference_document is None:
            self._reference_document = build_document(
                self.root, self._nodes, self.dialect, fast=False
            )
        return self._reference_document

    def is_valid(self, value: Any) -> bool:
        """Return the fast engine's verdict; False for a value too costly to check."""
        if not self._cost.is_linear and find_excess(self.root, self._cost, value):
            return False
        fast = self._fast_engine or self._fast()
        fast.budget.refill()
        try:
            return bool(fast.validator.is_valid(value)) and fast.budget.left >= 0
        except ValueError:
            # Nested deeper than the fast engine goes, or not JSON at all.
            return False

    def check(self, value: Any, *, limit: int = _DEFAULT_LIMIT) -> tuple[SchemaProblem, ...]:
        """Return no problems if the value is valid, else at least one.

        The reference engine decides where the two differ; ``disagreements`` counts that.
        """
        return () if self.is_valid(value) else self.problems(value, limit=limit)

    def problems(self, value: Any, *, limit: int = _DEFAULT_LIMIT) -> tuple[SchemaProblem, ...]:
        """Return every problem of a value by the reference engine, at most ``limit``.

        A value that is too large for the reference, or that uses up its budget, gets one
        problem only: the first that the fast engine meets.
        """
        excess = find_excess(self.root, self._cost, value)
        if excess is not None:
            return (_plain("", "work", excess),)
        if count_values(value, MAX_REFERENCE_VALUES) > MAX_REFERENCE_VALUES:
            return self._first_problem(value)
        try:
            errors = iter_reference_errors(self._reference(), self.dialect, value, limit=limit)
        except (OutOfSteps, RecursionError):
            return self._first_problem(value)
        found = flatten(errors, "", limit)
        if bool(found) == self.is_valid(value):
            self.disagreements += 1
        return found

    def explain(self, value: Any, *, max_bytes: int = 4096, limit: int = _DEFAULT_LIMIT) -> str:
        """Return the problems as text for a language model, ``""`` for a valid value.

        Args:
            value: The value to check.
            max_bytes: Bound on the UTF-8 text.
            limit: Most problems to look for; a full list is marked as possibly incomplete.
        """
        found = self.check(value, limit=limit)
        return explain(found, max_bytes=max_bytes, more=len(found) >= limit)

    def _first_problem(self, value: Any) -> tuple[SchemaProblem, ...]:
        """Return the fast engine's first problem: all that a costly value gets.

        Security: that engine's list of all errors is not used. Unlike its verdict, it
        remembers nothing about recursive references, and may need any time and memory.
        """
        if self.is_valid(value):
            return ()
        fast = self._fast()
        if fast.budget.left < 0:
            return (_plain("", "work", "has too much text for the schema's patterns"),)
        if not self._cost.is_linear:
            return (_plain("", "work", "is not valid, and too costly to explain"),)
        fast.budget.refill()
        try:
            fast.validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            keyword = str(error.kind.name)
            message = f"fails {keyword!r}, got {preview(error.instance)}"
            return (_plain(pointer_of(error.instance_path), keyword, message),)
        except ValueError as error:
            return (_plain("", "depth", f"cannot be checked: {error!s:.200}"),)
        return (_plain("", "", "is not valid"),)


def _plain(pointer: str, keyword: str, message: str) -> SchemaProblem:
    return SchemaProblem(pointer, message, keyword, "a smaller or simpler value", "")


def compile_schema(schema: JsonValue, *, base_pointer: str = "") -> CompiledSchema:
    """Check a schema against every load rule and compile it.

    Nothing is ever fetched, and no plugin code runs. The rules and their names are
    listed in ``raw_exec.schema.rules``.

    Args:
        schema: Draft 2020-12, or draft-07 if ``$schema`` says so. Not kept, not changed.
        base_pointer: Goes before every pointer in ``SchemaError.problems``.

    Raises:
        SchemaError: ``schema_invalid``; each of ``problems`` is a ``SchemaRefusal``.
    """
    refusals = list(_load(schema))
    last = refusals.pop()
    if isinstance(last, CompiledSchema):
        return last
    raise _error([r for r in (*refusals, last) if isinstance(r, SchemaRefusal)], base_pointer)


def _load(schema: JsonValue) -> Iterator[SchemaRefusal | CompiledSchema]:
    """Yield refusals, or at the end the one compiled schema."""
    shape = find_shape_problem(schema)
    if shape is not None:
        yield shape
        return
    try:
        document = thaw(freeze(schema))
    except NotJson as exc:
        yield SchemaRefusal(exc.problem.pointer, exc.problem.message, rule="not_json")
        return
    dialect = choose_dialect(document)
    if isinstance(dialect, SchemaRefusal):
        yield dialect
        return
    found = _meta_refusals(document, dialect)
    if found:
        yield from found
        return
    nodes = collect(document, dialect)
    found = find_keyword_problems(nodes, dialect)
    found += resolve_references(nodes, dialect)
    found += find_pattern_problems(nodes, dialect)
    if found:
        yield from found[:_MAX_LOAD_PROBLEMS]
        return
    cost = measure_plain(nodes.values()) or measure_schema(nodes[""])
    if isinstance(cost, SchemaRefusal):
        yield cost
        return
    compiled = CompiledSchema(nodes, dialect, cost)
    if _has_patterns(nodes):
        try:
            compiled._fast()
        except ValueError as exc:
            yield SchemaRefusal("", f"cannot be compiled: {exc!s:.200}", rule="pattern_budget")
            return
    yield compiled


def _has_patterns(nodes: dict[str, Node]) -> bool:
    return any(
        isinstance(node.schema, dict)
        and ("pattern" in node.schema or "patternProperties" in node.schema)
        for node in nodes.values()
    )


def _meta_refusals(document: Any, dialect: Dialect) -> list[SchemaRefusal]:
    try:
        errors = meta_problems(document, dialect, limit=_MAX_LOAD_PROBLEMS)
    except RecursionError:
        return [SchemaRefusal("", "is nested too deeply for its meta-schema", rule="too_deep")]
    return [
        SchemaRefusal(p.pointer, p.message, rule="meta_schema")
        for p in flatten(errors, "", _MAX_LOAD_PROBLEMS)
    ]


def _error(refusals: list[SchemaRefusal], base: str) -> SchemaError:
    placed: tuple[Problem, ...] = tuple(
        SchemaRefusal(base + r.pointer, r.message, rule=r.rule) for r in refusals
    )
    first = placed[0]
    more = f" (and {len(placed) - 1} more)" if len(placed) > 1 else ""
    return SchemaError(
        "schema_invalid",
        f"schema is refused at {first.pointer or '(root)'}: {first.message}{more}",
        problems=placed,
    )
