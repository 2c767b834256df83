"""Both languages accept and refuse the same arguments: those that JSON Schema accepts."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from contracts.codegen.conftest import TypeScript, load_python
from contracts.codegen.values import STRINGS, random_object, random_subset_schema, random_value

from raw_exec.contracts.codegen import Lock, Prompt, Tool, generate
from raw_exec.contracts.subset import find_subset_problems
from raw_exec.schema import compile_schema
from raw_exec.schema.patterns import search

DRIVER = """
import { getPrompt } from "./prompts.js";
import { readFileSync } from "node:fs";
const prompt = getPrompt("@acme/all");
const tools = {};
for (const { name } of prompt.toolDefs()) tools[name] = (input) => input;
const answers = [];
for (const [name, args] of JSON.parse(readFileSync(0, "utf8"))) {
  answers.push(await prompt.dispatchTool(name, args, tools));
}
console.log(JSON.stringify(answers));
"""


def _lock(schemas: list[dict[str, Any]]) -> Lock:
    tools = tuple(
        Tool(f"t{index}", f"@acme/t{index}", "1.0.0", schema)
        for index, schema in enumerate(schemas)
    )
    return Lock((Prompt("@acme/all", "1.0.0", tools),))


def _python(lock: Lock, calls: list[tuple[str, Any]], folder: Path) -> list[dict[str, Any]]:
    prompt = load_python(lock, folder).get_prompt("@acme/all")
    tools = {tool["name"]: lambda value: value for tool in prompt.tool_defs()}
    return [prompt.dispatch_tool(name, args, tools) for name, args in calls]


def _typescript(
    lock: Lock, calls: list[tuple[str, Any]], typescript: TypeScript
) -> list[dict[str, Any]]:
    (typescript.folder / "prompts.ts").write_text(generate(lock, "typescript"), encoding="utf-8")
    assert typescript.compile() == []
    answers: list[dict[str, Any]] = json.loads(typescript.run(DRIVER, stdin=json.dumps(calls)))
    return answers


def random_lock(seed: int, schemas: int, *, results: bool = False) -> Lock:
    """Return a lock with one prompt that pins tools of random schemas."""
    rng = random.Random(seed)
    chosen: list[dict[str, Any]] = []
    while len(chosen) < schemas:
        schema = random_subset_schema(rng) | {"type": "object"}
        if rng.random() < 0.8:
            schema |= random_object(rng, 3)
        schema.pop("enum", None)
        schema.pop("const", None)
        if not find_subset_problems(schema):
            chosen.append(schema)
    lock = _lock(chosen)
    if not results:
        return lock
    tools = [
        replace(tool, output_schema=other.input_schema)
        for tool, other in zip(lock.prompts[0].tools, lock.prompts[0].tools[::-1], strict=True)
    ]
    return Lock((replace(lock.prompts[0], tools=tuple(tools)),))


@pytest.mark.slow
def test_random_arguments_get_one_verdict_in_both_languages_and_from_the_schema(
    tmp_path: Path, typescript: TypeScript
) -> None:
    """What the contract's schema refuses reaches no implementation."""
    lock = random_lock(seed=7, schemas=120)
    rng = random.Random(8)
    calls = [
        (tool.wire_name, random_value(rng, dict(tool.input_schema)))
        for tool in lock.prompts[0].tools
        for _ in range(40)
    ]
    python = _python(lock, calls, tmp_path)
    other = _typescript(lock, calls, typescript)
    compiled = {tool.wire_name: compile_schema(tool.input_schema) for tool in lock.prompts[0].tools}
    schemas = {tool.wire_name: tool.input_schema for tool in lock.prompts[0].tools}
    differing = []
    accepted = 0
    for (name, args), one, two in zip(calls, python, other, strict=True):
        wanted = compiled[name].is_valid(args)
        accepted += wanted
        same = one["success"] == two["success"] == wanted
        if not same or (wanted and json.loads(one["content"]) != json.loads(two["content"])):
            differing.append((wanted, one, two, json.dumps(args), json.dumps(schemas[name])))
    assert sorted(differing, key=lambda row: len(row[4]))[:2] == []
    assert accepted > len(calls) // 10
    assert len(calls) - accepted > len(calls) // 10


def _cases() -> list[tuple[str, dict[str, Any], Any, bool]]:
    """Return name, schema of the property ``v``, its value, and whether it is accepted."""
    integer, number, string = {"type": "integer"}, {"type": "number"}, {"type": "string"}
    one = {"type": "object", "properties": {"a": integer}, "required": ["a"]}
    two = {"type": "object", "properties": {"b": string}, "required": ["b"]}
    tagged = {
        "type": "object",
        "properties": {"kind": string},
        "required": ["kind"],
        "oneOf": [
            {"properties": {"kind": {"const": "x"}, "x": integer}, "required": ["x"]},
            {"properties": {"kind": {"const": "y"}, "y": string}, "required": ["y"]},
        ],
    }
    return [
        ("7.0 is an integer", integer, 7.0, True),
        ("7.5 is none", integer, 7.5, False),
        ("text is none", integer, "7", False),
        ("true is none", integer, True, False),
        ("true is no number", number, True, False),
        ("largest integer", integer, 2**53 - 1, True),
        ("integer that JavaScript can not hold", integer, 2**53 + 2, False),
        ("large number", number, 1e300, True),
        ("null is not optional", string, None, False),
        ("1 is not true", {"enum": [True]}, 1, False),
        ("1.0 is 1", {"enum": [1, 2]}, 1.0, True),
        ("true is not 1", {"enum": [1]}, True, False),
        ("false is not 0", {"const": 0}, False, False),
        ("-0 is 0", {"const": 0}, -0.0, True),
        ("null constant", {"const": None}, None, True),
        ("mixed numbers", {"enum": [1, 1.5]}, 1.5, True),
        ("characters are counted, not units", {"type": "string", "maxLength": 1}, "😀", True),
        ("combining characters count", {"type": "string", "maxLength": 1}, "e\u0301", False),
        ("digits are ASCII", {"type": "string", "pattern": "^\\d+$"}, "٣", False),
        ("$ is the very end", {"type": "string", "pattern": "^a$"}, "a\n", False),
        ("patterns match anywhere", {"type": "string", "pattern": "b"}, "abc", True),
        (". is one character", {"type": "string", "pattern": "^.$"}, "😀", True),
        ("tenths are exact", {"type": "number", "multipleOf": 0.1}, 0.3, True),
        ("and not nearly", {"type": "number", "multipleOf": 0.1}, 0.35, False),
        ("tiny steps", {"type": "number", "multipleOf": 1e-7}, 3e-7, True),
        ("huge multiples", {"type": "number", "multipleOf": 1000}, 1e300, True),
        ("limits of other types do not count", {"minLength": 5, "minimum": 3}, 4, True),
        ("limits without a type count", {"minLength": 5, "minimum": 3}, "abc", False),
        ("same item, other spelling", {"type": "array", "uniqueItems": True}, [1, 1.0], False),
        ("1 and true differ", {"type": "array", "uniqueItems": True}, [1, True], True),
        ("order of keys does not count",
         {"type": "array", "uniqueItems": True}, [{"a": 1, "b": 2}, {"b": 2, "a": 1}], False),
        ("undeclared properties count for uniqueness",
         {"type": "array", "items": one, "uniqueItems": True}, [{"a": 1}, {"a": 1, "x": 1}], True),
        ("undeclared properties count as properties",
         one | {"maxProperties": 1}, {"a": 1, "x": 1}, False),
        ("undeclared allowed", one, {"a": 1, "x": 1}, True),
        ("undeclared refused", one | {"additionalProperties": False}, {"a": 1, "x": 1}, False),
        ("nothing declared, nothing allowed",
         {"type": "object", "additionalProperties": False}, {"x": 1}, False),
        ("one of two", {"oneOf": [one, two]}, {"a": 1}, True),
        ("both of one", {"oneOf": [one, two]}, {"a": 1, "b": "x"}, False),
        ("both of any", {"anyOf": [one, two]}, {"a": 1, "b": "x"}, True),
        ("neither", {"anyOf": [one, two]}, {"a": "x"}, False),
        ("tagged", tagged, {"kind": "x", "x": 1}, True),
        ("tagged wrongly", tagged, {"kind": "x", "y": "1"}, False),
        ("an integer is a number, so both", {"oneOf": [integer, number]}, 1, False),
        ("only a number", {"oneOf": [integer, number]}, 1.5, True),
        ("an inherited name is not there",
         {"type": "object", "properties": {"toString": string}, "required": ["toString"]},
         {}, False),
        ("or optional and not there",
         {"type": "object", "properties": {"constructor": string}}, {}, True),
        ("prototype", {}, {"__proto__": 1}, False),
        ("half a character", string, "\ud800", False),
        ("anything", {}, [None, {"a": [1.5]}], True),
        ("nothing fits both", {"type": "string", "enum": ["a"], "const": "b"}, "a", False),
        ("alternatives without a type of their own",
         {"type": "integer", "anyOf": [{"minimum": 5}, {"maximum": 1}]}, 3, False),
    ]  # fmt: skip


def test_every_vector_has_its_verdict_in_both_languages(
    tmp_path: Path, typescript: TypeScript
) -> None:
    """Every keyword that the subset allows is enforced, alike."""
    cases = _cases()
    lock = _lock(
        [
            {"type": "object", "properties": {"v": schema}, "required": ["v"]}
            for _, schema, _, _ in cases
        ]
    )
    calls = [(f"t{index}", {"v": value}) for index, (_, _, value, _) in enumerate(cases)]
    wanted = {name: accepted for name, _, _, accepted in cases}
    answers = _python(lock, calls, tmp_path)
    assert {c[0]: a["success"] for c, a in zip(cases, answers, strict=True)} == wanted
    others = _typescript(lock, calls, typescript)
    assert {c[0]: a["success"] for c, a in zip(cases, others, strict=True)} == wanted


@pytest.mark.slow
def test_a_pattern_means_the_same_in_both_languages_and_in_re2(
    tmp_path: Path, typescript: TypeScript
) -> None:
    """The check refuses every pattern of which that is not so."""
    rng = random.Random(5)
    atoms = ("a", "b", ".", "\\d", "\\s", "\\W", "[a-c]", "[^b]", "(a|b)", "^", "$", "\\.", "-",
             "#", "&", "~", "/", "\\/", "[\\w-]", "[#&~-]", "é", "😀", "(?:ab)", "\\x62", "{", "}",
             "]", " ", "\\-")  # fmt: skip
    repeats = ("", "", "", "*", "+", "?", "{2}", "{1,}", "{0,2}", "*?", "+?", "??", "**", "{2}?")
    patterns: dict[str, None] = {}
    while len(patterns) < 120:
        parts = [rng.choice(atoms) + rng.choice(repeats) for _ in range(rng.randrange(1, 5))]
        pattern = "".join(parts)
        if not find_subset_problems({"pattern": pattern}, role="output"):
            patterns[pattern] = None
    texts = [
        *STRINGS,
        "ab#",
        "a{",
        "}",
        "-",
        "/",
        "&~",
        "a b",
        "abab",
        "\u0085",
        "\u180e",
        "\ufeff",
    ]
    lock = _lock(
        [
            {"type": "object", "properties": {"v": {"type": "string", "pattern": pattern}}}
            for pattern in patterns
        ]
    )
    calls = [(f"t{index}", {"v": text}) for index in range(len(patterns)) for text in texts]
    names = list(patterns)
    wanted = [search(names[int(name[1:])], args["v"]) for name, args in calls]
    assert [one["success"] for one in _python(lock, calls, tmp_path)] == wanted
    assert [one["success"] for one in _typescript(lock, calls, typescript)] == wanted
