"""JSON values: checked once, frozen, the same object for everybody."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raw_exec.values import FrozenDict, FrozenList, NotJson, freeze, thaw

_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab~/"), inner, max_size=4),
    max_leaves=20,
)


@given(_JSON)
def test_a_frozen_value_is_equal_and_thaws_to_plain_data(value: Any) -> None:
    """Freezing changes nothing but the types of the containers."""
    frozen = freeze(value)
    assert frozen == value
    assert json.dumps(frozen) == json.dumps(value)
    assert thaw(frozen) == value
    assert type(thaw(frozen)) is type(value)


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        (float("nan"), ""),
        ({"a": [1, float("inf")]}, "/a/1"),
        ({"a/b": {"~": 2**53}}, "/a~1b/~0"),
        ({1: "x"}, ""),
        ({"s": "\ud800"}, "/s"),
        ({"x": (1, 2)}, "/x"),
        ({"x": b""}, "/x"),
        ({"x": object()}, "/x"),
    ],
)
def test_what_is_not_json_is_refused_by_pointer(value: object, pointer: str) -> None:
    """RFC 7493 data, by exact types: a subclass could lie later."""
    with pytest.raises(NotJson) as caught:
        freeze(value)
    assert caught.value.problem.pointer == pointer


def test_nesting_beyond_the_limit_is_refused() -> None:
    """A value that nothing else could walk is never let in."""
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    with pytest.raises(NotJson):
        freeze(value)


@pytest.mark.parametrize(
    "change",
    [
        lambda v: v.__setitem__("a", 1),
        lambda v: v.update(a=1),
        lambda v: v.pop("list"),
        lambda v: v.clear(),
        lambda v: v["list"].append(1),
        lambda v: v["list"].__setitem__(0, 1),
        lambda v: v["list"].sort(),
        lambda v: v["list"].__iadd__([1]),
    ],
)
def test_a_frozen_value_can_not_be_changed(change: Any) -> None:
    """Hooks, approver and handler see one and the same object (seed 1)."""
    value = freeze({"list": [3, 2]})
    assert (type(value), type(value["list"])) == (FrozenDict, FrozenList)
    with pytest.raises(TypeError):
        change(value)
    assert value == {"list": [3, 2]}
