"""The local check and the public CLI's own offline check agree, but for what is listed."""

from __future__ import annotations

import collections
import json
import random
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from contracts.subset.schemas import random_schema

from foreign import foreign_program
from raw_exec.contracts.subset import DIFFERENCES, find_subset_problems
from raw_exec.contracts.subset.problem import SubsetProblem

VERSION = "0.9.0"
COUNT = 3000
_LISTED = {difference.name for difference in DIFFERENCES}
_LINE = re.compile(r"  (/[^\n]*?): [^\n]*")


@pytest.fixture(scope="session")
def sufleur(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the public CLI: ``$SUFLEUR``, or one installed into a scratch environment."""
    return foreign_program(tmp_path_factory, "sufleur", f"sufleur-cli=={VERSION}")


def _public_pointers(sufleur: Path, home: Path, schema: Any, role: str) -> list[str]:
    """Return the pointers that the public check prints; it needs no credentials to refuse."""
    output = ["--output"] if role == "output" else []
    done = subprocess.run(
        [str(sufleur), "tool", "schema", "set", "@a/b@draft", "--file", "-", "--json", *output],
        input=json.dumps(schema),
        capture_output=True,
        text=True,
        timeout=60,
        env={"HOME": str(home), "XDG_CONFIG_HOME": str(home)},
    )
    message = json.loads(done.stderr)["error"]
    if message.startswith("not logged in"):
        return []
    head, _, rest = message.partition("\n")
    assert re.fullmatch(r"\d+ schema issue\(s\); nothing was sent:", head), message
    lines = rest.split("\n")
    pointers = [match[1] for line in lines if (match := _LINE.fullmatch(line))]
    assert len(pointers) == len(lines), message
    return pointers


def _compare(sufleur: Path, home: Path, schema: Any, role: Any) -> tuple[list[str], set[str]]:
    public = collections.Counter(_public_pointers(sufleur, home, schema, role))
    problems = find_subset_problems(schema, role=role)
    rules = {p.pointer: p.rule for p in problems if isinstance(p, SubsetProblem)}
    ours = collections.Counter(
        p.pointer or "/" for p in problems if isinstance(p, SubsetProblem) and p.rule == "subset"
    )
    stray = [f"only public: {one}" for one in (public - ours)]
    stray += [f"only ours: {one}" for one in (ours - public)]
    return stray, {rule for rule in rules.values() if rule != "subset"}


@pytest.mark.slow
def test_both_checks_name_the_same_places_of_thousands_of_schemas(
    sufleur: Path, tmp_path: Path
) -> None:
    """Our check may refuse more, each time for a listed reason; never less, never elsewhere."""
    rng = random.Random(20261130)
    jobs = []
    for index in range(COUNT):
        schema = random_schema(rng)
        if rng.random() < 0.8:
            schema["type"] = "object"
        jobs.append((schema, "output" if index % 4 == 0 else "input"))
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda job: _compare(sufleur, tmp_path, *job), jobs))
    differing = [
        (json.dumps(schema), role, stray)
        for (schema, role), (stray, _) in zip(jobs, results, strict=True)
        if stray
    ]
    assert differing == []
    seen = set().union(*(rules for _, rules in results))
    assert seen <= _LISTED
    accepted = sum(not find_subset_problems(schema, role=role) for schema, role in jobs)
    assert accepted > COUNT // 20, "too few good schemas to mean anything"


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda one: one.name)
def test_every_listed_difference_is_real(difference: Any, sufleur: Path, tmp_path: Path) -> None:
    """An entry that the public check refuses as well has no place in the list."""
    deep: Any = {}
    for _ in range(70):
        deep = {"type": "array", "items": deep}
    examples: dict[str, list[Any]] = {
        "unenforced_keyword": [
            {"prefixItems": [{}]},
            {"contains": {}},
            {"propertyNames": {}},
            {"dependentRequired": {}},
            {"dependentSchemas": {}},
            {"dependencies": {}},
            {"unevaluatedProperties": False},
            {"unevaluatedItems": False},
            {"minContains": 1},
        ],
        "reference_keyword": [{"$dynamicRef": "#x"}, {"$recursiveRef": "#"}],
        "keyword_value": [{"minLength": "x"}, {"minimum": "x"}, {"multipleOf": 0}, {"pattern": 1}],
        "portable_pattern": [{"pattern": "(?=a)"}, {"pattern": "\\bx"}, {"pattern": "["}],
        "empty_branches": [{"anyOf": []}, {"oneOf": []}],
        "property_name": [{"properties": {"__proto__": {}}}],
        "enum_type": [{"type": "string", "enum": [1]}, {"type": "string", "const": 1}],
        "const_value": [{"const": {}}, {"const": []}],
        "number_range": [{"maximum": 2**60}, {"enum": [2**60]}, {"const": 2**60}],
        "size": [deep],
    }
    for schema in examples[difference.name]:
        problems = find_subset_problems(schema, role="output")
        assert {p.rule for p in problems if isinstance(p, SubsetProblem)} == {difference.name}
        assert _public_pointers(sufleur, tmp_path, schema, "output") == []
