"""``tool.json``: every field wrong in turn, and the seed's own example right."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raw_exec.errors import ManifestError
from raw_exec.limits import MAX_MANIFEST_BYTES
from raw_exec.manifest import PanelAction, PanelDeclaration, ToolManifest, parse_manifest

GOOD: dict[str, Any] = {
    "api_version": 2,
    "id": "append_notes",
    "version": "1.0.0",
    "name": "append_notes",
    "description": "Append one newline-terminated note to a file.",
    "input_schema": {
        "type": "object",
        "properties": {"path": {"type": "string", "minLength": 1}},
        "required": ["path"],
        "additionalProperties": False,
    },
    "entry": "./index.mjs",
}
EFFECTS = {"type": "object", "properties": {"files": {"type": "array"}}}
PANEL = {"id": "p", "title": "Plan"}
ACTION = {"id": "a", "label": "Go", "kind": "prompt", "text": "hi"}
MISSING = object()


def parse(**changes: Any) -> ToolManifest:
    document = {key: v for key, v in {**GOOD, **changes}.items() if v is not MISSING}
    return parse_manifest(json.dumps(document, indent=1))


def refusal(text: bytes | str) -> ManifestError:
    with pytest.raises(ManifestError) as caught:
        parse_manifest(text)
    return caught.value


def pointers(**changes: Any) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        parse(**changes)
    assert caught.value.code == "manifest_invalid"
    assert all(problem.line is not None for problem in caught.value.problems)
    return [problem.pointer for problem in caught.value.problems]


def test_the_seeds_example_is_valid() -> None:
    """seed 2, "Working example"."""
    manifest = parse()
    assert (manifest.id, manifest.name, manifest.version) == ("append_notes",) * 2 + ("1.0.0",)
    assert (manifest.entry, manifest.language) == ("./index.mjs", "esm")
    assert manifest.input_schema == GOOD["input_schema"]
    assert manifest.compiled_input.is_valid({"path": "x"})
    assert not manifest.compiled_input.is_valid({"path": "x", "y": 1})
    assert (manifest.condition_sources, manifest.effects_schema, manifest.panels) == ((), None, ())
    assert manifest.warnings == ()


def test_a_manifest_can_not_be_changed_through_its_schema() -> None:
    """Everyone sees one and the same definition."""
    with pytest.raises(TypeError):
        parse().input_schema["properties"]["path"]["minLength"] = 0


def test_optional_fields_are_read() -> None:
    """seed 1, "Manifest fields"; ``./index.py`` is ours."""
    manifest = parse(
        entry="./index.py",
        condition_sources=["effects", "arguments"],
        effects_schema=EFFECTS,
        panels=[PANEL],
    )
    assert manifest.language == "python"
    assert manifest.condition_sources == ("effects", "arguments")
    assert manifest.effects_schema == EFFECTS
    assert manifest.compiled_effects is not None
    assert manifest.panels == (PanelDeclaration("p", "Plan"),)


NOT_ENTRIES = [
    "index.mjs",
    "./index.js",
    "./index.cjs",
    "./INDEX.mjs",
    "./index.mjs ",
    "./index.mjs\n",
    "./index.mjs\0",
    "./index.mjs.",
    "../x.mjs",
    "./../index.mjs",
    "./a/../index.mjs",
    "././index.mjs",
    ".//index.mjs",
    "/etc/passwd",
    "file:///tmp/index.mjs",
    "%2e%2e/index.mjs",
    "./index%2emjs",
    ".\\index.mjs",
    "./index.mjs?x",
    "./index.mjs#x",
    "data:text/javascript,0",
    "node:fs",
    "npm:left-pad",
    "left-pad",
    "./ind\u0435x.mjs",
    "\uff0e/index.mjs",
    "./" + "a" * 5000 + ".mjs",
    "",
]


@pytest.mark.parametrize("entry", NOT_ENTRIES)
def test_an_entry_is_one_of_two_literal_forms(entry: str) -> None:
    """Attack corpus X15, X17, X18, X20; the message names both forms."""
    with pytest.raises(ManifestError) as caught:
        parse(entry=entry)
    (problem,) = caught.value.problems
    assert problem.pointer == "/entry"
    assert "'./index.mjs' or './index.py'" in problem.message
    assert problem.message.replace("…", "").isascii()
    assert problem.message.isprintable()


@pytest.mark.parametrize("field", list(GOOD))
def test_every_required_field_must_be_there(field: str) -> None:
    """seed 1: the required column."""
    assert pointers(**{field: MISSING}) == [""]


@pytest.mark.parametrize("field", [f for f in GOOD if f != "api_version"])
@pytest.mark.parametrize("value", [None, True, 5, [], ["x"]])
def test_every_field_refuses_another_type(field: str, value: Any) -> None:
    """Every field wrong in turn."""
    assert pointers(**{field: value}) == [f"/{field}"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", ""),
        ("id", "Append"),
        ("id", "1x"),
        ("id", "a/b"),
        ("id", "a.b"),
        ("id", "a\n"),
        ("id", "\u0430ppend"),
        ("id", "__proto__"),
        ("id", "a" * 65),
        ("version", "1.0"),
        ("version", "1.0.0-beta"),
        ("version", "v1.0.0"),
        ("version", "1.0.0\n"),
        ("version", "1.0.x"),
        ("version", "\u0661.0.0"),
        ("version", "1.0." + "9" * 20),
        ("name", ""),
        ("name", "1x"),
        ("name", "a b"),
        ("name", "a" * 65),
        ("name", "ap\u200dpend"),
        ("name", "append\u202e"),
        ("description", ""),
        ("description", " \n"),
        ("description", "x" * 65537),
        ("input_schema", {}),
        ("effects_schema", {"type": "array"}),
    ],
)
def test_every_string_has_its_form(field: str, value: Any) -> None:
    """seed 2, "Layout and schema"; attack corpus X14, X18, X20, X22."""
    assert pointers(**{field: value}) == [f"/{field}"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", "a"),
        ("id", "a-b_9" + "x" * 59),
        ("version", "0.0.0"),
        ("version", "2026.01.30"),
        ("name", "_"),
        ("name", "A-b_9" + "x" * 59),
        ("description", "x" * 65536),
        ("description", "émoji \N{GRINNING FACE}\n\ttab"),
        ("api_version", 2.0),
    ],
)
def test_the_edges_of_every_form_are_accepted(field: str, value: Any) -> None:
    """The pair of the refusals."""
    assert parse(**{field: value}).warnings == ()


@pytest.mark.parametrize("version", [1, 3, "2", 2.5, True, None, [2], -2])
def test_another_api_version_names_the_current_form(version: Any) -> None:
    """seed 1, "Caution": old forms are rejected, not adapted; nothing else is said."""
    with pytest.raises(ManifestError) as caught:
        parse(api_version=version, entry="x", unknown=1)
    (problem,) = caught.value.problems
    assert problem.pointer == "/api_version"
    assert "raw.tool-api/2" in problem.message


@pytest.mark.parametrize("field", ["permissions", "x-vendor", "__proto__", "constructor", "Entry"])
def test_unknown_fields_are_refused(field: str) -> None:
    """seed 1: manifests reject unknown fields. Attack corpus X14, X31."""
    assert pointers(**{field: {}}) == [f"/{field}"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"condition_sources": ["effects"]}, ["/condition_sources/0"]),
        ({"condition_sources": ["arguments", "arguments"]}, ["/condition_sources/1"]),
        ({"condition_sources": ["results"]}, ["/condition_sources/0"]),
        ({"condition_sources": [1]}, ["/condition_sources/0"]),
        ({"condition_sources": "arguments"}, ["/condition_sources"]),
        ({"condition_sources": ["arguments"] * 3}, ["/condition_sources"]),
        ({"effects_schema": []}, ["/effects_schema"]),
    ],
)
def test_condition_sources_are_declared_sources(
    changes: dict[str, Any], expected: list[str]
) -> None:
    """seed 1: ``effects`` needs an ``effects_schema``."""
    assert pointers(**changes) == expected


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"properties": {"a": {"pattern": "(?=x)"}}}, "/input_schema/properties/a/pattern"),
        ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "/input_schema/properties/a/$ref"),
        ({"properties": {"a": {"$ref": "http://127.0.0.1/"}}}, "/input_schema/properties/a/$ref"),
        ({"$async": True}, "/input_schema/$async"),
        ({"$schema": "http://json-schema.org/draft-04/schema#"}, "/input_schema/$schema"),
        ({"properties": {"a": {"minLength": -1}}}, "/input_schema/properties/a/minLength"),
    ],
)
def test_schema_problems_are_located_in_the_manifest(schema: dict[str, Any], pointer: str) -> None:
    """seed 2; attack corpus X01, X07, X08, X09. The rules themselves are tested elsewhere."""
    assert pointers(input_schema={"type": "object", **schema}) == [pointer]


def test_everything_wrong_is_reported_at_once_with_its_place() -> None:
    """Ours: one round trip for the author."""
    text = '{"api_version": 2,\n "id": "A",\n "entry": "x.mjs",\n "descripton": ""}'
    error = refusal(text)
    assert [(p.pointer, p.line, p.column) for p in error.problems] == [
        ("", 1, 1),
        ("", 1, 1),
        ("", 1, 1),
        ("", 1, 1),
        ("/id", 2, 8),
        ("/entry", 3, 11),
        ("/descripton", 4, 2),
    ]
    assert "did you mean 'description'?" in error.problems[-1].message


def test_a_duplicate_field_is_refused_with_both_places() -> None:
    """Attack corpus X12."""
    error = refusal('{"entry": "./index.mjs",\n "entry": "./index.py"}')
    assert [str(p) for p in error.problems] == ["2:2 /entry: duplicate key 'entry'; first at 1:2"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xef\xbb\xbf{}",
        "{}".encode("utf-16"),
        b'{"a":"\0"}',
        b'{"a":"\xff"}',
        b"[" * 100_000,
        b'{"api_version": NaN}',
        b"{} trailing",
        b"{} // comment",
        b'{"n": ' + b"9" * 5000 + b"}",
        b" " * (MAX_MANIFEST_BYTES + 1),
        b"[" + b"1," * 200_000 + b"1]",
    ],
)
def test_text_that_is_no_strict_json_is_one_clear_error(data: bytes) -> None:
    """Attack corpus X11 to X13."""
    error = refusal(data)
    assert error.code == "manifest_invalid"
    assert "Traceback" not in str(error)


@pytest.mark.parametrize("text", ["[]", "null", "1", '"x"', "{}"])
def test_json_that_is_no_manifest_is_refused(text: str) -> None:
    """The root is an object with at least the required fields."""
    assert refusal(text).problems[0].pointer == ""


def test_invisible_characters_in_a_description_are_warned_about() -> None:
    """Attack corpus X23: allowed, since people write them, but said."""
    assert parse(description="a\u202eb\x1b[31m").warnings == (
        "description has invisible characters: U+001B, U+202E",
    )


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-100, 100) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "type", "panels", "x", "pattern"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*GOOD, "effects_schema", "panels", "x"]), json_values))
def test_any_change_is_accepted_or_refused_with_the_one_error(changes: dict[str, Any]) -> None:
    """Fuzz rule."""
    problems: object = "accepted"
    try:
        parse(**changes)
    except ManifestError as error:
        problems = error.problems
    assert problems


# ---------------------------------------------------------------- panels


def test_a_panel_declaration_is_read_whole() -> None:
    """spec, "Panels", Declaration."""
    panel = {
        "id": "plan",
        "title": "x" * 40,
        "icon": "gauge",
        "placement": "chat",
        "open": "first_update",
        "context": "summary",
        "acp_plan": True,
        "actions": [
            {
                **ACTION,
                "scope": "item",
                "blocks": ["b"],
                "text": "Do {{item.label}} of {{panel.id}}",
                "primary": True,
                "confirm": "Sure?",
                "when": {"status": ["pending", "done"]},
            },
            {"id": "b", "label": "Run", "kind": "tool", "arguments": {"p": "{{panel.id}}"}},
            {"id": "c", "label": "Send", "kind": "response", "response": "submit"},
        ],
    }
    (found,) = parse(panels=[panel]).panels
    assert found == PanelDeclaration(
        "plan",
        "x" * 40,
        "gauge",
        "chat",
        "first_update",
        "summary",
        True,
        (
            PanelAction(
                "a",
                "Go",
                "prompt",
                "Do {{item.label}} of {{panel.id}}",
                "item",
                ("b",),
                True,
                "Sure?",
                ("pending", "done"),
            ),
            PanelAction("b", "Run", "tool", {"p": "{{panel.id}}"}),
            PanelAction("c", "Send", "response", "submit"),
        ),
    )


def test_an_unknown_icon_falls_back_with_a_warning() -> None:
    """seed 1: unknown icons fall back to ``panel``."""
    manifest = parse(panels=[{**PANEL, "icon": "rocket"}])
    assert manifest.panels == (PanelDeclaration("p", "Plan", "panel"),)
    assert manifest.warnings == (
        "unknown icon 'rocket' at /panels/0/icon; 'panel' is shown instead",
    )


def with_action(**changes: Any) -> list[Any]:
    action = {key: v for key, v in {**ACTION, **changes}.items() if v is not MISSING}
    return [{**PANEL, "actions": [action]}]


@pytest.mark.parametrize(
    ("panels", "expected"),
    [
        ({}, ["/panels"]),
        ([PANEL] * 5, ["/panels"]),
        ([1], ["/panels/0"]),
        ([PANEL, PANEL], ["/panels/1/id"]),
        ([{"id": "p"}], ["/panels/0"]),
        ([{**PANEL, "id": "P"}], ["/panels/0/id"]),
        ([{**PANEL, "id": "p" * 33}], ["/panels/0/id"]),
        ([{**PANEL, "title": ""}], ["/panels/0/title"]),
        ([{**PANEL, "title": "x" * 41}], ["/panels/0/title"]),
        ([{**PANEL, "title": "a\nb"}], ["/panels/0/title"]),
        ([{**PANEL, "icon": 5}], ["/panels/0/icon"]),
        ([{**PANEL, "placement": "top"}], ["/panels/0/placement"]),
        ([{**PANEL, "open": "always"}], ["/panels/0/open"]),
        ([{**PANEL, "context": "full"}], ["/panels/0/context"]),
        ([{**PANEL, "acp_plan": 1}], ["/panels/0/acp_plan"]),
        ([{**PANEL, "extra": 1}], ["/panels/0/extra"]),
        (
            [{**PANEL, "acp_plan": True}, {"id": "q", "title": "Q", "acp_plan": True}],
            ["/panels"],
        ),
        ([{**PANEL, "actions": [ACTION] * 9}], ["/panels/0/actions"]),
        ([{**PANEL, "actions": [ACTION, ACTION]}], ["/panels/0/actions/1/id"]),
        (with_action(label="x" * 33), ["/panels/0/actions/0/label"]),
        (with_action(scope="page"), ["/panels/0/actions/0/scope"]),
        (with_action(kind="run"), ["/panels/0/actions/0/kind"]),
        (with_action(text=MISSING), ["/panels/0/actions/0"]),
        (with_action(arguments={}), ["/panels/0/actions/0/arguments"]),
        (with_action(kind="tool", text=MISSING, arguments=[]), ["/panels/0/actions/0/arguments"]),
        (
            with_action(kind="response", text=MISSING, response="ok"),
            ["/panels/0/actions/0/response"],
        ),
        (with_action(text="{{item.id}}"), ["/panels/0/actions/0/text"]),
        (with_action(text="{{env.HOME}}"), ["/panels/0/actions/0/text"]),
        (
            with_action(kind="tool", text=MISSING, arguments={"a": [{"b": "{{x}}"}]}),
            ["/panels/0/actions/0/arguments/a/0/b"],
        ),
        (with_action(when={}), ["/panels/0/actions/0/when"]),
        (with_action(when={"status": "never"}), ["/panels/0/actions/0/when/status"]),
        (with_action(when={"status": []}), ["/panels/0/actions/0/when/status"]),
        (with_action(primary="yes"), ["/panels/0/actions/0/primary"]),
        (with_action(confirm=1), ["/panels/0/actions/0/confirm"]),
        (with_action(blocks="b"), ["/panels/0/actions/0/blocks"]),
    ],
)
def test_each_wrong_panel_field_is_refused_at_its_place(panels: Any, expected: list[str]) -> None:
    """spec, "Panels", Declaration and Actions."""
    assert pointers(panels=panels) == expected
