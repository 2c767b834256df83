"""Check a ``write_file`` call with sixteen operations against its schema."""

from __future__ import annotations

import time
from typing import Any

from .claims import Bench, BenchmarkFailed, Claim
from .measure import Contestant, batched, interleave_into
from .report import Goal, Section

BASE = "jsonschema, the reference"
CHECK = "raw_exec.schema check"
STAGE = "raw_exec, freeze and check"

_TEXT: dict[str, Any] = {"type": "string", "maxLength": 1_000_000}
_LINE: dict[str, Any] = {"type": "integer", "minimum": 1}
_FORMS: dict[str, dict[str, dict[str, Any]]] = {
    "overwrite": {"content": _TEXT},
    "append": {"content": _TEXT},
    "prepend": {"content": _TEXT},
    "create": {"content": _TEXT, "executable": {"type": "boolean"}},
    "replace_text": {"old": _TEXT, "new": _TEXT, "count": _LINE},
    "replace_pattern": {"pattern": _TEXT, "new": _TEXT},
    "replace_lines": {"first": _LINE, "last": _LINE, "content": _TEXT},
    "insert_before": {"line": _LINE, "content": _TEXT},
    "insert_after": {"line": _LINE, "content": _TEXT},
    "delete_lines": {"first": _LINE, "last": _LINE},
    "delete_text": {"old": _TEXT},
    "move_lines": {"first": _LINE, "last": _LINE, "line": _LINE},
    "copy_lines": {"first": _LINE, "last": _LINE, "line": _LINE},
    "rename": {"to": _TEXT},
    "truncate": {"bytes": {"type": "integer", "minimum": 0}},
    "set_encoding": {"encoding": {"enum": ["utf-8", "utf-16", "latin-1"]}},
}


def write_file_schema() -> dict[str, Any]:
    """Return an input schema whose operations take one of sixteen forms."""
    forms = []
    for operation, fields in _FORMS.items():
        properties = {"operation": {"const": operation}, "path": {"$ref": "#/$defs/path"}, **fields}
        forms.append(
            {
                "type": "object",
                "properties": properties,
                "required": list(properties),
                "additionalProperties": False,
            }
        )
    return {
        "type": "object",
        "properties": {
            "operations": {
                "type": "array",
                "minItems": 1,
                "maxItems": 64,
                "items": {"oneOf": forms},
            },
            "dry_run": {"type": "boolean"},
        },
        "required": ["operations"],
        "additionalProperties": False,
        "$defs": {"path": {"type": "string", "minLength": 1, "pattern": r"^[^\x00]+$"}},
    }


def write_file_call() -> dict[str, Any]:
    """Return arguments with sixteen operations, each of another form."""
    values = {"string": "some lines of text\n", "integer": 7, "boolean": True}
    operations = []
    for operation, fields in _FORMS.items():
        item: dict[str, Any] = {"operation": operation, "path": f"src/{operation}.txt"}
        for name, schema in fields.items():
            item[name] = schema["enum"][0] if "enum" in schema else values[schema["type"]]
        operations.append(item)
    return {"operations": operations, "dry_run": False}


async def run(bench: Bench, section: Section) -> None:
    """Fill the table."""
    import jsonschema
    import jsonschema_rs
    from referencing import Registry

    from raw_exec.schema import compile_schema
    from raw_exec.values import freeze

    schema, call = write_file_schema(), write_file_call()
    compiled = compile_schema(schema)
    frozen: Any = freeze(call)
    reference = jsonschema.Draft202012Validator(schema, registry=Registry())
    fast = jsonschema_rs.Draft202012Validator(schema)
    wrong = {**call, "operations": [*call["operations"], {"operation": "explode"}]}
    for name, verdict in (
        ("jsonschema", reference.is_valid),
        ("jsonschema-rs", fast.is_valid),
        ("raw_exec", compiled.is_valid),
    ):
        if not verdict(call) or verdict(wrong):
            raise BenchmarkFailed(f"{name} gives the wrong verdict")
    contestants = [
        Contestant(BASE, batched(lambda: reference.is_valid(call), 1), calls=bench.size(4, 1)),
        Contestant("jsonschema-rs alone", batched(lambda: fast.is_valid(call), 20)),
        Contestant(CHECK, batched(lambda: compiled.check(frozen), 20)),
        Contestant(STAGE, batched(lambda: compiled.check(freeze(call)), 20)),
        Contestant(
            "raw_exec, explain a wrong call",
            batched(lambda: compiled.explain(wrong), 1),
            calls=bench.size(2, 1),
        ),
    ]
    await interleave_into(
        section,
        contestants,
        rounds=bench.round_count(20, 8),
        calls=bench.size(20, 10),
        warm_up=2,
        scale=1e6,
    )
    start = time.perf_counter()
    compile_schema(schema)
    section.facts["compile_ms"] = round((time.perf_counter() - start) * 1000, 3)


def judge(section: Section) -> list[Goal]:
    """Derive the goals."""
    row = section.row(CHECK)
    return [
        Goal(
            "validate a 16-operation write_file",
            0.1,
            None if row is None else row.p50 / 1000,
            "ms",
            note=section.missing(CHECK),
        )
    ]


CLAIM = Claim("schema", "Validate a 16-operation write_file", "us", BASE, run, judge)
