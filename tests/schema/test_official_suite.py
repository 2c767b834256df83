"""The official JSON Schema test suite: right verdict, or refused by a named rule."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from raw_exec.errors import SchemaError
from raw_exec.schema import SchemaRefusal, compile_schema
from requires import require

from .suite_refusals import REFUSED

_DRAFTS = {
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}


def _files(shared: Path, draft: str) -> list[Path]:
    folder = shared / "data" / "json-schema-test-suite" / "tests" / draft
    found = sorted(folder.glob("*.json"))
    require("shared", bool(found), f"the official JSON Schema suite is not at {folder}")
    return found


def _groups(path: Path, draft: str) -> Iterator[tuple[str, Any, list[dict[str, Any]]]]:
    for group in json.loads(path.read_text("utf-8")):
        schema = group["schema"]
        if isinstance(schema, dict):
            schema = {"$schema": _DRAFTS[draft], **schema}
        yield group["description"], schema, group["tests"]


@pytest.mark.slow
@pytest.mark.parametrize("draft", list(_DRAFTS))
def test_every_required_case_has_the_right_verdict_from_both_engines(
    shared: Path, draft: str
) -> None:
    """Contract-mandated: draft 2020-12 and draft-07, exactly."""
    wrong: list[tuple[str, str, str, bool, bool]] = []
    cases = 0
    for path in _files(shared, draft):
        for description, schema, tests in _groups(path, draft):
            try:
                compiled = compile_schema(schema)
            except SchemaError:
                continue
            for case in tests:
                cases += 1
                fast = compiled.is_valid(case["data"])
                exact = not compiled.problems(case["data"])
                if not fast == exact == case["valid"]:
                    wrong.append((path.name, description, case["description"], fast, exact))
            assert compiled.disagreements == 0
    assert wrong == []
    assert cases > 800


@pytest.mark.slow
@pytest.mark.parametrize("draft", list(_DRAFTS))
def test_refused_groups_are_exactly_those_in_the_table(shared: Path, draft: str) -> None:
    """Our choice: what is refused, and under which rule, is written down."""
    refused: dict[tuple[str, str], dict[str, str]] = {}
    for path in _files(shared, draft):
        for description, schema, _ in _groups(path, draft):
            try:
                compile_schema(schema)
            except SchemaError as exc:
                problem = exc.problems[0]
                assert isinstance(problem, SchemaRefusal)
                refused.setdefault((draft, path.name), {})[description] = problem.rule
    assert refused == {key: value for key, value in REFUSED.items() if key[0] == draft}
