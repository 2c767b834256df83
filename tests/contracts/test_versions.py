"""Versions and constraints, in the syntax of the public CLI."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raw_exec.contracts.errors import Invalid
from raw_exec.contracts.versions import Version, draft_label, is_label, parse_constraint

PUBLISHED = ["0.0.3", "0.1.0", "1.0.0", "1.2.0", "1.2.9", "1.3.0", "1.10.0", "2.0.0", "2.1.0"]


@pytest.mark.parametrize(
    ("text", "best"),
    [
        ("*", "2.1.0"),
        ("x", "2.1.0"),
        ("X", "2.1.0"),
        ("1", "1.10.0"),
        ("1.x", "1.10.0"),
        ("1.2.x", "1.2.9"),
        ("1.2", "1.2.9"),
        ("^1.2.0", "1.10.0"),
        ("^0.1", "0.1.0"),
        ("^0.0.3", "0.0.3"),
        ("~1.0", "1.0.0"),
        ("~1.2.3", "1.2.9"),
        ("~>1", "1.10.0"),
        ("~> 1.2", "1.2.9"),
        (">=1.0.0 <2.0.0", "1.10.0"),
        (">=1.0.0, <2.0.0", "1.10.0"),
        (">=1.0.0,<1.3.0", "1.2.9"),
        ("^1.0 || ^2", "2.1.0"),
        ("~0.1||~1.2", "1.2.9"),
        ("1.0.0 - 2.0.0", "2.0.0"),
        ("1.0.0 - 2", "2.1.0"),
        ("!=2.1.0", "2.0.0"),
        ("!=2", "1.10.0"),
        (">=1 !=1.10.x <2", "1.3.0"),
        ("=1.0.0", "1.0.0"),
        ("= 1.0.0", "1.0.0"),
        ("v1.0.0", "1.0.0"),
        ("=>1.0", "2.1.0"),
        ("=<1.2", "1.2.9"),
        ("<=1", "1.10.0"),
        (">1", "2.1.0"),
        (">1.2", "2.1.0"),
        ("<1.2", "1.0.0"),
        ("^3", None),
        ("1.0.0-draft.0", None),
        ("1.2.0 2.0.0", None),
    ],
)
def test_a_constraint_takes_the_highest_publication_that_satisfies_it(
    text: str, best: str | None
) -> None:
    """Registry wire interface §5.3."""
    assert parse_constraint(text).best(PUBLISHED) == best


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "latest",
        "Draft",
        "draft",
        ">=",
        "^a",
        "bogus!",
        "1.2.3.4",
        "01.0.0",
        "1,",
        ",1",
        "||1",
        "1 ||",
        "1 || || 2",
        "1.0.0 -2.0.0",
        ">=1.0.0<2.0.0",
        "^^1",
        "1.0.0'; DROP TABLE tools; --",
        "1.0.0\0",
        "１.0.0",
        "9" * 400,
        "1." + "9" * 20,
        "*" * 300,
        "^1 " * 200,
    ],
)
def test_a_malformed_constraint_is_refused(text: str) -> None:
    """Registry wire interface §5.3: hand-written constraints are sent unchecked."""
    with pytest.raises(Invalid) as caught:
        parse_constraint(text)
    assert caught.value.code == "bad_constraint"


@given(st.text(alphabet="0123456789.xX*^~<>=!|, v-+ad", max_size=40))
def test_any_text_is_a_constraint_or_the_one_error(text: str) -> None:
    """Our choice: whatever parses can be evaluated."""
    try:
        parsed = parse_constraint(text)
    except Invalid as exc:
        assert exc.code == "bad_constraint"  # noqa: PT017 - either outcome is fine
        return
    best = parsed.best(PUBLISHED)
    assert best is None or parsed.matches(best)


VERSIONS = st.builds(Version, *[st.integers(0, 999_999_999)] * 3)


@given(VERSIONS, VERSIONS)
def test_versions_are_ordered_by_their_numbers_and_read_back(one: Version, other: Version) -> None:
    """Semantic versioning: 1.10.0 is above 1.9.0."""
    assert Version.parse(str(one)) == one
    order = (one.major, one.minor, one.patch) < (other.major, other.minor, other.patch)
    assert (one < other) is order
    if one < other:
        assert parse_constraint(f">{one}").matches(str(other))


@pytest.mark.parametrize(
    "text",
    ["", "1.0", "v1.0.0", "1.0.0-rc.1", "01.0.0", "1.0.0+b", "1.0.0 ", "1.0.0\n", "١.0.0", "x"],
)
def test_only_plain_numbers_are_published(text: str) -> None:
    """Registry wire interface §5.2."""
    with pytest.raises(Invalid) as caught:
        Version.parse(text)
    assert caught.value.code == "version_number"


def test_a_draft_is_labelled_after_the_last_publication() -> None:
    """Registry wire interface §5.6."""
    assert draft_label(None) == "0.0.1-draft.0"
    assert draft_label(Version(1, 2, 3)) == "1.2.4-draft.0"
    assert is_label("1.2.4-draft.0")
    assert not is_label("1.2.4")
    assert not is_label("draft")
