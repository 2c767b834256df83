"""Matches of blocks: exact or in part."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest

from raw_exec.fields import Document
from raw_exec.verify.matching import check_block

PIXEL = base64.b64encode(b"not looked at here").decode()
DIGEST = hashlib.sha256(b"not looked at here").hexdigest()


def matches(wanted: dict[str, Any], actual: dict[str, Any]) -> bool:
    """Check a written block against a real one."""
    document = Document("{}")
    match = check_block(document.root(wanted))
    assert document.ok
    assert match is not None
    return match.problem(actual) is None


@pytest.mark.parametrize(
    ("wanted", "actual", "equal"),
    [
        ("abc", "abc", True),
        ("abc", "abcd", False),
        ({"contains": "b"}, "abc", True),
        ({"contains": "x"}, "abc", False),
        ({"regex": "^a.c$"}, "abc", True),
        ({"regex": "^b"}, "abc", False),
    ],
)
def test_a_text_is_exact_or_in_part(wanted: Any, actual: str, equal: bool) -> None:
    """Our choice: ``contains`` and ``regex`` match anywhere."""
    block = {"type": "text", "text": actual}
    assert matches({"type": "text", "text": wanted}, block) is equal


@pytest.mark.parametrize(
    ("field", "wanted", "actual", "equal"),
    [
        ("value", {"a": 1}, {"a": 1}, True),
        ("value", {"a": 1}, {"a": 1, "b": 2}, False),
        ("value", 1, True, False),
        ("value", 1, 1.0, True),
        ("value", [1, 2], [1], False),
        ("contains", {"a": 1}, {"a": 1, "b": 2}, True),
        ("contains", {"a": {"b": []}}, {"a": {"b": [], "c": 1}}, True),
        ("contains", {"a": {"b": [1]}}, {"a": {"b": [1, 2]}}, False),
        ("contains", {"a": None}, {}, False),
        ("contains", [{"a": 1}], [{"a": 1, "b": 2}], True),
    ],
)
def test_a_json_value_is_exact_or_in_part(
    field: str, wanted: Any, actual: Any, equal: bool
) -> None:
    """Our choice: ``contains`` looks at named members only, at every item of a list."""
    block = {"type": "json", "value": actual}
    assert matches({"type": "json", field: wanted}, block) is equal


@pytest.mark.parametrize(
    ("wanted", "equal"),
    [
        ({}, True),
        ({"mimeType": "image/png"}, True),
        ({"mimeType": "image/jpeg"}, False),
        ({"sha256": DIGEST}, True),
        ({"sha256": "0" * 64}, False),
        ({"data": PIXEL}, True),
        ({"data": "AAAA"}, False),
    ],
)
def test_an_image_is_known_by_type_bytes_or_digest(wanted: dict[str, str], equal: bool) -> None:
    """Our choice: a case need not hold the picture."""
    block = {"type": "image", "mimeType": "image/png", "data": PIXEL}
    assert matches({"type": "image", **wanted}, block) is equal


def test_a_block_of_another_type_does_not_match() -> None:
    """The type is always compared."""
    assert not matches({"type": "text", "text": "1"}, {"type": "json", "value": 1})


def test_the_place_of_a_difference_is_a_json_pointer() -> None:
    """RFC 6901: a key may hold what separates keys."""
    wanted = {"type": "json", "contains": {"a/b": {"c~d": {"e/~": 1}}}}
    match = check_block(Document("{}").root(wanted))
    assert match is not None
    for actual in ({"a/b": {"c~d": {}}}, {"a/b": {"c~d": {"e/~": 2}}}):
        problem = match.problem({"type": "json", "value": actual})
        assert problem is not None
        assert "has at /a~1b/c~0d/e~1~0 what" in problem
