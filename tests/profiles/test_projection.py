"""Definitions for providers: nothing that a tool accepts gets lost, or the tool is withheld."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import raw_exec
from raw_exec.errors import ConfigError, SchemaError
from raw_exec.manifest import ToolManifest
from raw_exec.profiles import (
    LINT_PROFILES,
    PROFILES,
    NameRule,
    profile_named,
    project_input,
    project_tools,
    wire_names,
)
from raw_exec.profiles.restoring import restore
from raw_exec.schema import compile_schema
from raw_exec.tools import load_registry
from toolbox import write_config, write_tool

BUILTIN = ("read_file", "write_file", "bash", "process", "view_image", "list_vars", "read_var",
           "ask_user", "todo")  # fmt: skip
EXACT = ("anthropic", "openai", "mcp")


def _manifest(schema: dict[str, Any]) -> ToolManifest:
    return ToolManifest(
        id="t",
        version="1.0.0",
        name="t",
        description="A tool.",
        input_schema=schema,
        entry="./index.py",
        language="python",
        condition_sources=(),
        effects_schema=None,
        panels=(),
        compiled_input=compile_schema(schema),
        compiled_effects=None,
        warnings=(),
    )


def _project(schema: dict[str, Any], profile: str) -> Any:
    return project_input(_manifest(schema), PROFILES[profile], base_pointer="")


def _pointers(schema: dict[str, Any], profile: str) -> list[str]:
    return [problem.pointer for problem in _project(schema, profile).problems]


# ---------------------------------------------------------------- names


def test_names_that_differ_stay_different_and_do_not_depend_on_order() -> None:
    """``a.b`` and ``a_b``; a name that is fine is never changed."""
    rule = PROFILES["openai"].names
    names = ["a.b", "a_b", "a b", "é", "x" * 200, "x" * 199, ""]
    found = wire_names(names, rule)
    assert found["a_b"] == "a_b"
    assert len(set(found.values())) == len(names)
    assert all(rule.accepts(name) for name in found.values())
    assert wire_names(reversed(names), rule) == found


def test_a_name_that_looks_like_anothers_digest_is_not_taken() -> None:
    """A tool can't take the place of another by its name."""
    rule = PROFILES["openai"].names
    stolen = wire_names(["a.b"], rule)["a.b"]
    found = wire_names(["a.b", stolen], rule)
    assert found[stolen] == stolen
    assert found["a.b"] not in (stolen, "a_b")


@given(st.lists(st.text(max_size=80), unique=True, max_size=20))
def test_any_names_are_mapped_without_a_collision(names: list[str]) -> None:
    """Reversible: there is one way back for each."""
    for rule in {profile.names for profile in PROFILES.values()}:
        found = wire_names(names, rule)
        back = {wire: name for name, wire in found.items()}
        assert [back[found[name]] for name in names] == names


def test_gemini_names_begin_with_a_letter() -> None:
    """Its own rule, apart from the others'."""
    rule = NameRule("A-Za-z_", "A-Za-z0-9_-", 64)
    (wire,) = wire_names(["1st"], rule).values()
    assert rule.accepts(wire)


# ---------------------------------------------------------------- schemas that go as they are


@pytest.mark.parametrize("draft", ["draft2020-12", "draft7"])
def test_exact_profiles_accept_what_the_schema_accepts(shared: Path, draft: str) -> None:
    """Every case of the official suite, put into a property, under every exact profile."""
    folder = shared / "data" / "json-schema-test-suite" / "tests" / draft
    checked = 0
    for path in sorted(folder.glob("*.json")):
        for case in json.loads(path.read_text("utf-8")):
            schema = case["schema"]
            root = {"$schema": "http://json-schema.org/draft-07/schema#"} if "7" in draft else {}
            holder = {**root, "type": "object", "properties": {"v": schema}}
            if '"$ref"' in json.dumps(schema):
                holder = {**root, **schema} if isinstance(schema, dict) else holder
            try:
                original = compile_schema(holder)
            except SchemaError:
                continue
            if not isinstance(original.root.schema, dict):
                continue
            for profile in EXACT:
                projected = _project(holder, profile)
                sent = compile_schema(projected.schema)
                assert sent.dialect.name == "2020-12"
                for test in case["tests"]:
                    value = test["data"] if "properties" not in holder else {"v": test["data"]}
                    for one in (value, test["data"]):
                        where = (path.name, case["description"], test["description"], profile)
                        assert sent.is_valid(one) == original.is_valid(one), where
                        checked += 1
    assert checked > 5000


def test_draft_07_is_said_in_the_words_of_today() -> None:
    """Tuples, dependencies, and references into them."""
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            "pair": {
                "type": "array",
                "items": [{"type": "string"}, {"type": "integer"}],
                "additionalItems": False,
            },
            "same": {"$ref": "#/properties/pair/items/1", "minimum": 100},
        },
        "dependencies": {"pair": ["same"], "same": {"required": ["pair"]}},
    }
    assert _project(schema, "openai").schema == {
        "type": "object",
        "properties": {
            "pair": {
                "type": "array",
                "prefixItems": [{"type": "string"}, {"type": "integer"}],
                "items": False,
            },
            "same": {"$ref": "#/properties/pair/prefixItems/1"},
        },
        "dependentRequired": {"pair": ["same"]},
        "dependentSchemas": {"same": {"required": ["pair"]}},
    }


def test_an_array_says_its_items_where_a_provider_wants_it() -> None:
    """One answers "array schema missing items"; ``{}`` means the same."""
    schema = {"type": "object", "properties": {"a": {"type": "array"}}}
    assert _project(schema, "openai").schema["properties"]["a"] == {"type": "array", "items": {}}
    assert _project(schema, "anthropic").schema == schema
    assert _pointers(schema, "gemini") == ["/properties/a"]


@pytest.mark.parametrize("profile", ["anthropic", "openai", "openai-strict", "gemini"])
def test_a_branch_at_the_root_is_refused_with_advice(profile: str) -> None:
    """It would fail the whole request."""
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "required": ["a", "b"],
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    }
    problems = _project(schema, profile).problems
    assert problems[0].pointer == "/oneOf"
    assert "validateArgs" in problems[0].message
    assert _pointers(schema, "mcp") == []


# ---------------------------------------------------------------- strict


STRICT = {
    "type": "object",
    "properties": {
        "url": {"type": "string", "format": "uri", "minLength": 3, "description": "Where."},
        "mode": {"enum": ["a", "b"]},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}},
        "either": {
            "oneOf": [
                {
                    "type": "object",
                    "properties": {"kind": {"const": "x"}, "n": {"type": "integer"}},
                    "required": ["kind"],
                },
                {
                    "type": "object",
                    "properties": {"kind": {"const": "y"}, "n": {"type": ["integer", "null"]}},
                    "required": ["kind", "n"],
                },
            ]
        },
    },
    "required": ["url"],
    "$defs": {
        "tag": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/tag"}},
            },
            "required": ["name"],
            "additionalProperties": False,
        }
    },
}


def test_a_strict_schema_requires_all_and_closes_all() -> None:
    """Optional is nullable, objects are closed, what it can't say is told."""
    projected = _project(STRICT, "openai-strict")
    assert projected.problems == ()
    assert projected.told == ("/properties/url/minLength",)
    closed = {"additionalProperties": False}
    assert projected.schema == {
        "type": "object",
        "properties": {
            "url": {"type": "string", "description": 'Where. (minLength: 3, format: "uri")'},
            "mode": {"type": ["string", "null"], "enum": ["a", "b", None]},
            "tags": {
                "anyOf": [
                    {"type": "array", "items": {"$ref": "#/$defs/tag"}},
                    {"type": "null"},
                ]
            },
            "either": {
                "anyOf": [
                    {
                        "type": "object",
                        **closed,
                        "properties": {
                            "kind": {"enum": ["x"], "type": "string"},
                            "n": {"type": ["integer", "null"]},
                        },
                        "required": ["kind", "n"],
                    },
                    {
                        "type": "object",
                        **closed,
                        "properties": {
                            "kind": {"enum": ["y"], "type": "string"},
                            "n": {"type": ["integer", "null"]},
                        },
                        "required": ["kind", "n"],
                    },
                    {"type": "null"},
                ]
            },
        },
        "required": ["url", "mode", "tags", "either"],
        **closed,
        "$defs": {
            "tag": {
                "type": "object",
                **closed,
                "properties": {
                    "name": {"type": "string"},
                    "children": {
                        "anyOf": [
                            {"type": "array", "items": {"$ref": "#/$defs/tag"}},
                            {"type": "null"},
                        ]
                    },
                },
                "required": ["name", "children"],
            }
        },
    }


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        (
            {"url": "abc", "mode": None, "tags": None, "either": None},
            {"url": "abc"},
        ),
        (
            {
                "url": "abc",
                "mode": "a",
                "tags": [{"name": "t", "children": [{"name": "u", "children": None}]}],
                "either": {"kind": "x", "n": None},
            },
            {
                "url": "abc",
                "mode": "a",
                "tags": [{"name": "t", "children": [{"name": "u"}]}],
                "either": {"kind": "x"},
            },
        ),
        (
            {"url": "abc", "mode": None, "tags": [], "either": {"kind": "y", "n": None}},
            {"url": "abc", "tags": [], "either": {"kind": "y", "n": None}},
        ),
    ],
)
def test_null_is_absent_on_the_way_back_only_where_it_was_made(sent: Any, meant: Any) -> None:
    """The branch that a value fits decides what its ``null`` means."""
    projected = _project(STRICT, "openai-strict")
    assert compile_schema(projected.schema).is_valid(sent)
    assert restore(sent, projected.restoration) == meant
    assert compile_schema(STRICT).is_valid(meant)


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"type": "object", "additionalProperties": {"type": "string"}}, "/additionalProperties"),
        ({"type": "object"}, ""),
        ({"type": ["string", "null"]}, ""),
        ({"type": "array"}, ""),
        ({}, ""),
        ({"type": "string", "not": {"const": "x"}}, "/not"),
        ({"type": "object", "properties": {}, "patternProperties": {"^x": {}}},
         "/patternProperties"),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "/oneOf"),
        ({"allOf": [{"type": "string"}, {"minLength": 1}]}, "/allOf"),
        ({"enum": [{"a": 1}]}, "/enum"),
        ({"type": "object", "properties": {}, "required": ["x"]}, "/required"),
    ],
)  # fmt: skip
def test_what_strict_can_not_say_is_refused_by_pointer(value: Any, place: str) -> None:
    """Never dropped in silence, never narrowed."""
    schema = {"type": "object", "properties": {"p": value}}
    assert f"/properties/p{place}" in _pointers(schema, "openai-strict")


def test_an_optional_null_with_a_null_default_means_absent() -> None:
    """The usual form of an optional field: absent and null are the same to its author."""
    schema = {
        "type": "object",
        "properties": {"p": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}},
    }
    projected = _project(schema, "openai-strict")
    assert projected.problems == ()
    assert restore({"p": None}, projected.restoration) == {}


# ---------------------------------------------------------------- gemini


def test_references_are_written_out_and_a_cycle_is_refused_with_its_path() -> None:
    """A dropped ``$ref`` leaves an argument without shape."""
    schema = {
        "type": "object",
        "properties": {"task": {"$ref": "#/$defs/Task", "description": "What to do."}},
        "$defs": {"Task": {"type": "object", "properties": {"n": {"const": 1}}}},
    }
    assert _project(schema, "gemini").schema["properties"]["task"] == {
        "type": "object",
        "description": "What to do.",
        "properties": {"n": {"enum": [1], "type": "number"}},
    }
    (problem,) = _project(STRICT, "gemini").problems
    assert problem.pointer == "/$defs/tag/properties/children/items/$ref"
    assert "/$defs/tag → /$defs/tag" in problem.message


# ---------------------------------------------------------------- everything that is accepted


def _strict_form(value: Any, schema: dict[str, Any], root: dict[str, Any]) -> Any:
    """Add ``null`` for whatever is left out, as a strict model would."""
    while "$ref" in schema:
        schema = root["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    for branch in schema.get("anyOf", ()):
        candidate = _strict_form(value, branch, root)
        if compile_schema({**branch, "$defs": root.get("$defs", {})}).is_valid(candidate):
            return candidate
    if isinstance(value, dict) and "properties" in schema:
        return {
            name: None if name not in value else _strict_form(value[name], inner, root)
            for name, inner in schema["properties"].items()
        }
    if isinstance(value, list) and "items" in schema:
        return [_strict_form(item, schema["items"], root) for item in value]
    return value


_LEAVES = [
    {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": "boolean"},
    {"enum": ["a", "b"]}, {"const": 5}, {"type": "string", "maxLength": 3},
]  # fmt: skip


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    objects = st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3).flatmap(
        lambda props: st.sets(st.sampled_from(sorted(props))).map(
            lambda required: {
                "type": "object",
                "properties": props,
                "required": sorted(required),
                "additionalProperties": False,
            }
        )
    )
    arrays = inner.map(lambda items: {"type": "array", "items": items, "maxItems": 2})
    unions = st.lists(inner, min_size=2, max_size=2).map(lambda branches: {"anyOf": branches})
    return objects | arrays | unions


_values = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 6) | st.sampled_from(["", "a", "b", "long"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=6,
)


@given(st.recursive(st.sampled_from(_LEAVES), _schemas, max_leaves=6), st.lists(_values))
def test_whatever_a_tool_accepts_can_still_be_sent(inner: Any, values: list[Any]) -> None:
    """Property: accepted → accepted by every projection, and strict's way back is exact."""
    schema = {"type": "object", "properties": {"p": inner}, "additionalProperties": False}
    original = compile_schema(schema)
    for name in LINT_PROFILES:
        projected = _project(schema, name)
        assert projected.problems == ()
        sent = compile_schema(projected.schema)
        for value in ({}, *({"p": value} for value in values)):
            strict = name == "openai-strict"
            form = _strict_form(value, projected.schema, projected.schema) if strict else value
            if original.is_valid(value):
                assert sent.is_valid(form)
                assert original.is_valid(restore(form, projected.restoration))
            elif not projected.told and not strict:
                assert not sent.is_valid(value)


# ---------------------------------------------------------------- whole registries


def test_one_bad_tool_is_withheld_and_the_rest_are_listed(tmp_path: Path) -> None:
    """Not the whole request fails."""
    write_tool(tmp_path, "good", "", language="python")
    bad = {"type": "object", "properties": {}, "anyOf": [{"required": ["a"]}]}
    write_tool(tmp_path, "bad", "", language="python", schema=bad)
    write_tool(tmp_path, "denied", "", language="python")
    rules = [{"match": "agent/denied", "effect": "deny"}]
    config = raw_exec.load_config(write_config(tmp_path, ["good", "bad", "denied"], rules=rules))
    projected = project_tools(load_registry(config).tools, profile_named("anthropic"))
    assert [tool["name"] for tool in projected.definitions] == ["good"]
    (withheld,) = projected.withheld
    assert (withheld.identity, [p.pointer for p in withheld.problems]) == (
        "agent/bad",
        ["/input_schema/anyOf"],
    )
    assert projected.get("bad") is None


def test_the_built_in_tools_go_to_every_provider_or_say_why_not(tmp_path: Path) -> None:
    """What this package ships fits what it says of others."""
    config = raw_exec.load_config(write_config(tmp_path, [f"builtin/{name}" for name in BUILTIN]))
    tools = load_registry(config).tools
    for name in ("anthropic", "openai", "mcp"):
        projected = project_tools(tools, PROFILES[name])
        assert [tool.tool_name for tool in projected.tools] == list(BUILTIN), name
        assert projected.withheld == ()
    for name in ("openai-strict", "gemini"):
        projected = project_tools(tools, PROFILES[name])
        assert len(projected.tools) + len(projected.withheld) == len(BUILTIN)
        assert all(tool.problems for tool in projected.withheld)


def test_an_unknown_profile_names_the_known_ones() -> None:
    """A typo is explained."""
    with pytest.raises(ConfigError) as caught:
        profile_named("antropic")
    assert caught.value.code == "unknown_profile"
    assert "did you mean 'anthropic'" in caught.value.message
