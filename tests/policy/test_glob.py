"""Globs over whole identities."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raw_exec.errors import PolicyError
from raw_exec.policy import compile_glob


@pytest.mark.parametrize(
    ("pattern", "identity", "matches"),
    [
        ("local/append_notes", "local/append_notes", True),
        ("local/append_notes", "local/append_notes2", False),
        ("local/append_notes", "xlocal/append_notes", False),
        ("*", "", True),
        ("*", "mcp/server/a/b", True),
        ("mcp/*", "mcp/server/tool", True),
        ("mcp/*", "xmcp/server/tool", False),
        ("*/write_*", "builtin/write_file", True),
        ("*a*b*", "xaxbx", True),
        ("*a*b*", "xbxax", False),
        ("ab*ba", "aba", False),
        ("ab*ba", "abba", True),
        ("?", "é", True),
        ("?", "/", True),
        ("?", "", False),
        ("?", "ab", False),
        ("a?c*?", "abcd", True),
        ("a?c*?", "abc", False),
        ("*?x", "x", False),
        ("*?x", "ax", True),
        ("**", "a", True),
        ("a.c", "abc", False),
        ("[ab]", "a", False),
        ("[ab]", "[ab]", True),
        ("A", "a", False),
        ("\\*", "\\x", True),
        ("a\n", "a", False),
    ],
)
def test_glob_matches_the_whole_identity(pattern: str, identity: str, matches: bool) -> None:
    """Contract-mandated: ``*`` any characters, ``/`` included; ``?`` one."""
    assert compile_glob(pattern).match(identity) is matches


@settings(max_examples=300)
@given(
    pattern=st.text(alphabet="ab/*?.[", min_size=1, max_size=10),
    identity=st.text(alphabet="ab/.[\n", max_size=12),
)
def test_glob_agrees_with_its_regular_expression(pattern: str, identity: str) -> None:
    """An independent definition of the same language."""
    translated = "".join({"*": ".*", "?": "."}.get(c, re.escape(c)) for c in pattern)
    expected = re.fullmatch(translated, identity, re.DOTALL) is not None
    assert compile_glob(pattern).match(identity) is expected


def test_glob_that_makes_backtracking_explode_is_answered() -> None:
    """Security: 2,000 stars against a text that almost fits."""
    assert not compile_glob("a*" * 2000 + "b").match("a" * 4000)
    assert compile_glob("a*" * 2000 + "b").match("a" * 4000 + "b")


@pytest.mark.parametrize("pattern", ["", "a" * 4097, "é" * 2049, "\ud800"])
def test_glob_outside_its_limits_is_refused(pattern: str) -> None:
    """4096 bytes of UTF-8, at least one."""
    with pytest.raises(PolicyError) as caught:
        compile_glob(pattern)
    assert caught.value.code == "glob_invalid"


def test_glob_at_the_limit_is_accepted() -> None:
    """The pair of the test above."""
    assert compile_glob("a" * 4096).match("a" * 4096)
