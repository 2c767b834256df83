"""YAML of dumped folders: what is written is read back, and nothing clever is read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raw_exec.contracts.errors import Invalid
from raw_exec.contracts.yamltext import parse_yaml, write_yaml

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | TEXT
    | st.floats(allow_nan=False).filter(lambda x: abs(x) != float("inf"))
)
VALUES = st.recursive(
    SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(TEXT, v, max_size=3), max_leaves=8
)


@given(st.dictionaries(TEXT, VALUES, max_size=4))
def test_what_is_written_is_read_back(value) -> None:
    """Property: dump and set-metadata --from-file are inverse."""
    assert parse_yaml(write_yaml(value), what="metadata") == value


@pytest.mark.parametrize("text", ["yes", "no", "on", "n", "1e3", "0o17", "0x1f", "1_000", "~"])
def test_a_text_that_any_yaml_takes_for_something_else_is_quoted(text) -> None:
    """Other programs read the files as well."""
    assert write_yaml({"k": text}) == f"k: '{text}'\n"


def test_dates_and_yes_are_texts() -> None:
    """The core schema of YAML 1.2."""
    text = "a: yes\nb: 2026-01-02\nc: 007\nd: .5\ne: 0x1F\nf: TRUE\ng:\n"
    assert parse_yaml(text, what="m") == {
        "a": "yes",
        "b": "2026-01-02",
        "c": 7,
        "d": 0.5,
        "e": 31,
        "f": True,
        "g": None,
    }


def test_json_and_an_empty_text_are_mappings() -> None:
    """JSON is YAML; nothing is no keys."""
    assert parse_yaml('{"a": [1, {"b": null}]}', what="m") == {"a": [1, {"b": None}]}
    assert parse_yaml("", what="m") == {}


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("a: &x 1\nb: *x", "anchor"),
        ("a: &x [*x]", "anchor"),
        ("a: !!python/object/apply:os.system [id]", "tag"),
        ("a: !!int 5", "tag"),
        ("a: 1\na: 2", "twice"),
        ("- 1", "mapping"),
        ("5", "mapping"),
        ("a: [", "expected"),
        ("[1]: 2", "not a text"),
        ("a: \x07", "characters"),
        ("a: 1\n---\nb: 2", "document"),
        ("a: " + "[" * 5000, "deeper"),
        ("a: " + "9" * 5000, "too long"),
    ],
)
def test_what_is_not_plain_data_is_refused(text, word) -> None:
    """Security: no objects, no bombs, no endless nesting."""
    with pytest.raises(Invalid, match=word) as caught:
        parse_yaml(text, what="m")
    assert caught.value.code == "bad_yaml"
