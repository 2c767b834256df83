"""Effects as data: paths, operations, the tool's own schema."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raw_exec.effects import check_effects, is_effect_path, normalise_effect_path
from raw_exec.errors import CallRefused
from raw_exec.schema import compile_schema
from raw_exec.values import FrozenDict

FILES = {
    "type": "object",
    "properties": {
        "files": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"path": {"type": "string"}, "operation": {"type": "string"}},
                "required": ["path"],
            },
        },
        "hosts": {"type": "array", "items": {"type": "object"}},
    },
    "additionalProperties": False,
}
SCHEMA = compile_schema(FILES)


@pytest.mark.parametrize(
    ("path", "cwd", "expected"),
    [
        ("a", "/w", "/w/a"),
        ("./a/../b", "/w", "/w/b"),
        ("../../..", "/w/x", "/"),
        ("/a//b/./c/", "/w", "/a/b/c"),
        ("//a", "/w", "/a"),
        ("a\\..\\b", "/w", "/w/a\\..\\b"),
        ("..a", "/w/", "/w/..a"),
        ("é/..", "/", "/"),
    ],
)
def test_paths_are_normalised_without_a_file_system(path: str, cwd: str, expected: str) -> None:
    """Seed 1, "Write effects": absolute, lexical."""
    assert normalise_effect_path(path, cwd) == expected


@pytest.mark.parametrize(("path", "cwd"), [("", "/w"), ("a", "w"), ("a", ""), ("a\0", "/w")])
def test_a_path_that_names_nothing_is_refused(path: str, cwd: str) -> None:
    """Ours."""
    with pytest.raises(ValueError, match=r"path|absolute"):
        normalise_effect_path(path, cwd)


@given(st.text(st.sampled_from("ab./\\é"), min_size=1), st.text(st.sampled_from("ab./")))
def test_normalising_is_idempotent_and_gives_effect_paths(path: str, folder: str) -> None:
    """Ours: what normalise_effect_path returns passes is_effect_path."""
    once = normalise_effect_path(path, "/" + folder)
    assert normalise_effect_path(once, "/elsewhere") == once
    assert is_effect_path(once)
    assert {".", "..", ""}.isdisjoint(once.split("/")[1:]) or once == "/"


def test_good_effects_are_frozen() -> None:
    """Seed 1: the same value is seen by rules, hooks and the approver."""
    effects = {
        "files": [{"path": "/a", "operation": op} for op in
                  ("write", "delete", "rename_source", "rename_destination")],
        "hosts": [{"path": "not/absolute", "operation": "whatever"}],
    }  # fmt: skip
    checked = check_effects(effects, SCHEMA)
    assert checked == effects
    assert type(checked) is FrozenDict


@pytest.mark.parametrize(
    ("effects", "pointer"),
    [
        ([], ""),
        ({"other": 1}, "/other"),
        ({"files": [{"operation": "write"}]}, "/files/0"),
        ({"files": [{"path": 1}]}, "/files/0/path"),
        ({"files": [{"path": "a", "operation": "write"}]}, "/files/0/path"),
        ({"files": [{"path": "/a/../b", "operation": "write"}]}, "/files/0/path"),
        ({"files": [{"path": "/a/", "operation": "write"}]}, "/files/0/path"),
        ({"files": [{"path": "//a", "operation": "write"}]}, "/files/0/path"),
        ({"files": [{"path": "/a\0", "operation": "write"}]}, "/files/0/path"),
        ({"files": [{"path": "", "operation": "write"}]}, "/files/0/path"),
        ({"files": [{"path": "/a"}, {"path": "/a", "operation": "read"}]}, "/files/1/operation"),
        ({"files": [], "hosts": [{"x": math.inf}]}, "/hosts/0/x"),
        ({"files": [{"path": "/\ud800", "operation": "write"}]}, "/files/0/path"),
    ],
)
def test_bad_effects_refuse_the_call(effects: object, pointer: str) -> None:
    """Seed 1: effects are validated; each problem has its place."""
    with pytest.raises(CallRefused) as caught:
        check_effects(effects, SCHEMA)
    assert (caught.value.code, caught.value.stage) == ("invalid_effects", "effects")
    assert pointer in [problem["pointer"] for problem in caught.value.detail["problems"]]


def test_many_problems_make_a_bounded_message() -> None:
    """Ours: a refusal is read by a person."""
    effects = {"files": [{"path": "x" * 5000, "operation": "y" * 5000}] * 500}
    with pytest.raises(CallRefused) as caught:
        check_effects(effects, SCHEMA)
    assert len(str(caught.value)) < 5000
    assert "and 990 more" in str(caught.value)
