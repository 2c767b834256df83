"""JSON Schema: load rules, a fast check, exact problems.

Two engines look at one rewritten copy of a schema. ``jsonschema-rs`` decides quickly
whether a value is valid. ``jsonschema`` lists every problem of an invalid one, and its
verdict wins where the two differ. RE2 decides what every pattern means.

Contract source: seed 1, "Manifest fields", and seed 2 (draft 2020-12, draft-07 by
``$schema``, no remote ``$ref``, no ``$async``).
"""

from .compiled import CompiledSchema, compile_schema
from .portability import find_portability_warnings
from .problems import SchemaProblem
from .rules import SchemaRefusal
from .string_paths import PathProblem, parse_path, resolve_string_path

__all__ = [
    "CompiledSchema",
    "PathProblem",
    "SchemaProblem",
    "SchemaRefusal",
    "compile_schema",
    "find_portability_warnings",
    "parse_path",
    "resolve_string_path",
]
