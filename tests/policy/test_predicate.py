"""Predicates: strict to read, bound to one tool's schema, linear to evaluate."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raw_exec.errors import PolicyError
from raw_exec.policy import (
    BoundPredicate,
    Predicate,
    PredicateSet,
    bind_predicate,
    parse_predicate,
    predicate,
)
from raw_exec.schema import compile_schema
from raw_exec.values import freeze

SCHEMA = compile_schema(
    {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "a/b~c": {"type": "string"},
            "count": {"type": "integer"},
            "files": {
                "type": "array",
                "items": {"type": "object", "properties": {"path": {"type": "string"}}},
            },
            "matrix": {"type": "array", "items": {"type": "array", "items": {"type": "string"}}},
        },
    }
)


def bind(path: str, regex: str, source: Any = "arguments") -> BoundPredicate:
    return bind_predicate(
        Predicate(source, path, regex),
        condition_sources=("arguments", "effects"),
        schemas={"arguments": SCHEMA, "effects": SCHEMA},
        where="here",
    )


def test_predicate_is_read_from_json() -> None:
    """Contract-mandated example of seed 1."""
    raw = {"source": "effects", "any": "files[*].path", "regex": "protected\\.txt$"}
    assert parse_predicate(raw, where="here") == Predicate(
        "effects", "files[*].path", "protected\\.txt$"
    )


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (None, "predicate_invalid"),
        ([], "predicate_invalid"),
        ({}, "predicate_invalid"),
        ({"source": "arguments", "any": "a"}, "predicate_invalid"),
        ({"source": "results", "any": "a", "regex": "b"}, "predicate_invalid"),
        ({"source": "arguments", "any": "a", "regex": "b", "all": "c"}, "predicate_invalid"),
        ({"source": "arguments", "any": ["a"], "regex": "b"}, "predicate_invalid"),
        ({"source": "arguments", "any": "a", "regex": 1}, "predicate_invalid"),
        ({"source": "arguments", "any": "a[0]", "regex": "b"}, "predicate_invalid"),
        ({"source": "arguments", "any": "", "regex": "b"}, "predicate_invalid"),
        ({"source": "arguments", "any": "a", "regex": "(?=b)"}, "predicate_regex_invalid"),
        ({"source": "arguments", "any": "a", "regex": "(b{1000}){1000}"},
         "predicate_regex_invalid"),
    ],
)  # fmt: skip
def test_predicate_of_another_shape_is_refused(raw: object, code: str) -> None:
    """Unknown fields too: an old format is rejected, not adapted."""
    with pytest.raises(PolicyError) as caught:
        parse_predicate(raw, where="tools.rules[3].when", rule=3)
    assert (caught.value.code, caught.value.where, caught.value.rule) == (
        code, "tools.rules[3].when", 3,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("value", "sources", "schemas", "code"),
    [
        (Predicate("effects", "path", "x"), ("arguments",), {"effects": SCHEMA},
         "predicate_source_undeclared"),
        (Predicate("effects", "path", "x"), ("effects",), {}, "predicate_source_undeclared"),
        (Predicate("effects", "path", "x"), ("effects",), {"effects": None},
         "predicate_source_undeclared"),
        (Predicate("effects", "pth", "x"), ("effects",), {"effects": SCHEMA},
         "predicate_path_unknown"),
        (Predicate("effects", "files.path", "x"), ("effects",), {"effects": SCHEMA},
         "predicate_path_unknown"),
        (Predicate("effects", "count", "x"), ("effects",), {"effects": SCHEMA},
         "predicate_path_not_string"),
        (Predicate("effects", "files", "x"), ("effects",), {"effects": SCHEMA},
         "predicate_path_not_string"),
        (Predicate("effects", "path", "("), ("effects",), {"effects": SCHEMA},
         "predicate_regex_invalid"),
    ],
)  # fmt: skip
def test_predicate_that_does_not_fit_the_tool_is_an_error(
    value: Predicate, sources: tuple[str, ...], schemas: Any, code: str
) -> None:
    """Security: an error at load, never a rule that silently does not match."""
    with pytest.raises(PolicyError) as caught:
        bind_predicate(value, condition_sources=sources, schemas=schemas, where="w", rule=1)
    assert (caught.value.code, caught.value.where, caught.value.rule) == (code, "w", 1)


@pytest.mark.parametrize(
    ("path", "regex", "value", "pointer"),
    [
        ("path", "b", {"path": "abc"}, "/path"),
        ("path", "^b", {"path": "abc"}, None),
        ("path", "", {"path": ""}, "/path"),
        ("path", "x", {}, None),
        ("path", "1", {"path": 1}, None),
        ("path", "x", {"path": ["x"]}, None),
        ("path", "x", ["x"], None),
        ("path", "x", "x", None),
        ("path", "x", None, None),
        ("a/b~c", "x", {"a/b~c": "x"}, "/a~1b~0c"),
        ("files[*].path", "b", {"files": [{"path": "a"}, {}, {"path": "b"}, {"path": "b"}]},
         "/files/2/path"),
        ("files[*].path", "b", {"files": {"0": {"path": "b"}}}, None),
        ("files[*].path", "b", {"files": [{"path": {"x": "b"}}, "b", None]}, None),
        ("matrix[*][*]", "b", {"matrix": [["a"], [], ["a", "b"]]}, "/matrix/2/1"),
        ("path", "é.$", {"path": "é😀"}, "/path"),
        ("path", "^.$", {"path": "😀"}, "/path"),
        ("path", "a\\x00b", {"path": "xa\x00by"}, "/path"),
    ],
)  # fmt: skip
def test_first_matching_string_is_found_by_pointer(
    path: str, regex: str, value: Any, pointer: str | None
) -> None:
    """Absent or of another type does not match."""
    bound = bind(path, regex)
    assert bound.match(value) == pointer
    assert bound.match(freeze(value)) == pointer
    expected = {} if pointer is None else {0: pointer}
    assert PredicateSet([bound]).evaluate({"arguments": value}) == expected


def test_hostile_pattern_takes_linear_time() -> None:
    """Security: a backtracking engine needs longer than the universe for this."""
    bound = bind("path", "^(a+)+$")
    assert bound.match({"path": "a" * 100_000 + "b"}) is None
    assert bound.match({"path": "a" * 100_000}) == "/path"


def test_set_evaluates_each_source_on_its_own() -> None:
    """Arguments and effects are different values with the same paths."""
    together = PredicateSet(
        [bind("path", "x"), bind("path", "x", "effects"), bind("path", "y"), bind("path", "x|y")]
    )
    value = {"path": "x"}
    assert together.evaluate({"arguments": value, "effects": None}) == {0: "/path", 3: "/path"}
    assert together.evaluate({"effects": value}) == {1: "/path"}
    assert together.evaluate({}) == {}


@settings(max_examples=200)
@given(
    patterns=st.lists(st.sampled_from(["a", "^a", "b$", "", "ab?", "[^a]", "é", "(?i)B", "^$"])),
    texts=st.lists(st.text(alphabet="abé\n", max_size=4), max_size=4),
)
def test_set_agrees_with_its_members(patterns: list[str], texts: list[str]) -> None:
    """One pass over many patterns finds what each finds alone."""
    value = {"files": [{"path": text} for text in texts]}
    bounds = [bind("files[*].path", pattern) for pattern in patterns]
    alone = {i: p for i, b in enumerate(bounds) if (p := b.match(value)) is not None}
    assert PredicateSet(bounds).evaluate({"arguments": value}) == alone


@pytest.mark.parametrize("length", [4096, 4097, 50_000])
def test_long_text_is_searched_to_its_end(length: int) -> None:
    """Above 4096 bytes the patterns are tried one at a time."""
    together = PredicateSet([bind("path", "needle$"), bind("path", "^x"), bind("path", "none")])
    value = {"path": "x" * (length - 6) + "needle"}
    assert together.evaluate({"arguments": value}) == {0: "/path", 1: "/path"}


def test_set_that_fails_is_not_taken_for_no_match(monkeypatch: pytest.MonkeyPatch) -> None:
    """Security: fail closed. RE2 reports a set that ran out of memory as "nothing matches"."""

    class Broken:
        def Match(self, _text: bytes) -> None:  # noqa: N802  # the library's name
            return None

    monkeypatch.setattr(predicate, "_build_set", lambda _patterns: Broken())
    together = PredicateSet([bind("path", "a"), bind("path", "b")])
    assert together.evaluate({"arguments": {"path": "b"}}) == {1: "/path"}


def test_patterns_too_large_for_one_set_still_work() -> None:
    """A set that cannot be built is replaced by its members."""
    patterns = [f"(?:\\pL|\\pN){{{n}}}x" for n in range(25, 45)]
    bounds = [bind("path", pattern) for pattern in patterns]
    assert predicate._build_set(patterns) is None
    found = PredicateSet(bounds).evaluate({"arguments": {"path": "é" * 30 + "x"}})
    assert found == dict.fromkeys(range(6), "/path")
