"""A pattern means the same to RE2, to the fast engine, and to the reference."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raw_exec.schema import compile_schema
from raw_exec.schema.patterns import (
    PatternRefused,
    compile_pattern,
    portable_pattern,
    search,
)

_PIECES = [
    *"abz09AZ _-/.:,;!@#%&~=<>é😀\n\t{}]|*+?^$()",
    "\\.", "\\d", "\\w", "\\s", "\\D", "\\W", "\\S", "\\n", "\\-", "\\/", "\\&", "\\#", "\\{",
    "\\]", "\\\\", "[a-z]", "[^a]", "[\\w.-]", "[&&a]", "[a~~b]", "[--a]", "[\\d]", "[^\\s]",
    "[a\\-z]", "[é-ü]", "[^é]", "[a-]", "[\\]]", "{1", "{,2}", "{2}", "{1,2}", "{01}", "(a|b)",
    "(?:ab)", "*?", "+?", "\\b", "(?i)a", "\\pL", "[[:alpha:]]",
    "\\x41", "\\x{e9}", "[^\\x00]", "[\\x61-\\x{62}]", "\\x5d", "\\x{d800}",
    "\\Q.", "\\z", "[]a]",
]  # fmt: skip
_TEXTS = st.text(alphabet="abzAZ09_-./{}]&~#é😀K\n\r\t\x0b\x85\u2028\u00a0 ", max_size=6)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    pattern=st.lists(st.sampled_from(_PIECES), max_size=5).map("".join),
    texts=st.lists(_TEXTS, min_size=1, max_size=8),
)
def test_both_engines_match_what_re2_matches(pattern: str, texts: list[str]) -> None:
    """The verdict is RE2's, also where the fast engine's own dialect differs."""
    try:
        compile_pattern(pattern)
    except PatternRefused:
        return
    value = compile_schema({"pattern": pattern})
    key = None
    if portable_pattern(pattern) is not None:
        key = compile_schema({"patternProperties": {pattern: False}})
    for text in texts:
        expected = search(pattern, text)
        assert value.is_valid(text) is expected
        assert (value.problems(text) == ()) is expected
        if key is not None:
            assert key.is_valid({text: 1}) is not expected
            assert (key.problems({text: 1}) == ()) is not expected


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("^\\d$", "7", "٣"),
        ("^\\w$", "k", "é"),
        ("^\\s$", " ", "\u00a0"),
        ("^.$", "\u2028", "\n"),
        ("a$", "a", "a\n"),
        ("\\bé", "aé", "é"),
        ("(?i)^k$", "\u212a", "x"),
        ("^\\pL+$", "Éa", "1"),
        ("^[[:alpha:]]$", "a", "é"),
        ("[a-z&&[b]]", "&]", "b"),
    ],
)
def test_pattern_means_what_re2_says(pattern: str, matching: str, other: str) -> None:
    """Places where regular-expression dialects differ."""
    compiled = compile_schema({"pattern": pattern})
    assert [compiled.is_valid(matching), compiled.is_valid(other)] == [True, False]
    assert [compiled.problems(matching) == (), compiled.problems(other) == ()] == [True, False]


@pytest.mark.parametrize(
    "pattern",
    ["(?=a)", "(?!a)", "(?<=a)", "(a)\\1", "\\Z", "\\p{Letter}", "\\cA", "a{1001}", "(", "[b-a]",
     "(a{1000}){1000}", "(?:\\pL|\\pN){800}", "a" * 4097, "\ud800"],
)  # fmt: skip
def test_pattern_outside_re2_or_its_limits_is_refused(pattern: str) -> None:
    """Our choice: one dialect; what it lacks is refused and not approximated."""
    with pytest.raises(PatternRefused):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "rewritten"),
    [
        ("^[\\w.-]+@\\d{2,}$", "^[0-9A-Za-z_\\.\\-]+@[0-9]{2,}$"),
        ("a.b", "a[^\n]b"),
        ("(x)(?:y)", "(?:x)(?:y)"),
        ("{,2}", "\\{,2\\}"),
        ("\\D", "[^0-9]"),
        ("^[^\\x00\\x5d]+\\x{2e}", "^[^\x00\\]]+\\."),
        ("\\bx", None),
        ("(?i)x", None),
        ("[[:alpha:]]", None),
        ("[^]a]", None),
        ("a{01}", None),
    ],
)
def test_portable_form_is_written_out(pattern: str, rewritten: str | None) -> None:
    """Whole strings, so that a change of the rewriting is reviewed."""
    assert portable_pattern(pattern) == rewritten


def test_costly_pattern_on_long_text_is_refused_within_the_budget() -> None:
    """Security: 1 MiB against three times 300 would hold the supervisor for a minute."""
    text = "xa" * 500_000
    for schema in (
        {"pattern": "(?:x.{0,300}){3}z"},
        {"not": {"pattern": "(?:x.{0,300}){3}z"}},
        {"allOf": [{"not": {"pattern": f"x.{{{n}}}z"}} for n in range(50, 60)]},
    ):
        compiled = compile_schema(schema)
        assert not compiled.is_valid(text)
        assert [p.keyword for p in compiled.check(text)] == ["work"]
        # The pair: short text is judged, and a check that ran out does not spoil the next.
        assert compiled.is_valid("x" * 900 + "z") is ("pattern" in schema)
        assert compiled.is_valid("a") is ("pattern" not in schema)


def test_ordinary_pattern_on_long_text_is_judged() -> None:
    """The pair: a path rule does not mind a 4 MiB text."""
    compiled = compile_schema({"pattern": "^[a-z/]+$"})
    assert compiled.is_valid("a/" * 2_000_000)
    assert not compiled.is_valid("a/" * 2_000_000 + "!")
