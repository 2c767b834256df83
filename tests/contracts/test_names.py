"""Names and references: what is accepted, and what only looks as if it should be."""

from __future__ import annotations

import pytest

from raw_exec.contracts.errors import Invalid
from raw_exec.contracts.names import (
    Ref,
    check_email,
    check_file_name,
    check_metadata_key,
    check_prompt_name,
    check_tool_name,
    check_wire_name,
    check_workspace_name,
    parse_ref,
    parse_workspace_ref,
    prompt_identity,
)

NASTY = [
    "",
    " ",
    "a b",
    "a\n",
    "a\0",
    "a/b",
    "../a",
    "a'; DROP TABLE tools; --",
    "a%",
    "fеtch",  # a Cyrillic letter that looks like e
    "fetch‐page",  # a hyphen that is not ASCII's
    "ﬀetch",
    "fetch\u200bpage",
    "１a",
]


@pytest.mark.parametrize("check", [check_tool_name, check_prompt_name, check_workspace_name])
@pytest.mark.parametrize("name", [*NASTY, "A", "1a", "-a", "_a", ".a", "@a", "a@b"])
def test_a_name_that_is_not_plain_is_refused(check, name: str) -> None:
    """Seed 3 and wire interface §5.2: the server validates what the CLI sends unchecked."""
    with pytest.raises(Invalid) as caught:
        check(name)
    assert caught.value.code in {"tool_name", "prompt_name", "workspace_name"}
    assert str(caught.value).isascii()


def test_the_longest_names_are_accepted_and_one_more_character_is_not() -> None:
    """Seed 3: ``^[a-z][a-z0-9_-]{0,63}$``."""
    for check, longest in (
        (check_tool_name, 64),
        (check_prompt_name, 214),
        (check_workspace_name, 64),
    ):
        assert check("a" * longest) == "a" * longest
        with pytest.raises(Invalid):
            check("a" * (longest + 1))


def test_dots_are_for_prompts_only() -> None:
    """Seed 3: tool names have no dots, unlike prompt names."""
    assert check_prompt_name("daily.brief") == "daily.brief"
    with pytest.raises(Invalid) as caught:
        check_tool_name("daily.brief")
    assert caught.value.code == "tool_name"


@pytest.mark.parametrize("alias", ["a", "A", "web_search", "1-2", "x" * 64])
def test_wire_names_are_what_providers_take(alias: str) -> None:
    """Seed 3: ``^[a-zA-Z0-9_-]{1,64}$``."""
    assert check_wire_name(alias) == alias


@pytest.mark.parametrize("alias", [*NASTY, "x" * 65, "a.b"])
def test_other_wire_names_are_refused(alias: str) -> None:
    """Seed 3: providers reject them."""
    with pytest.raises(Invalid):
        check_wire_name(alias)


@pytest.mark.parametrize("name", [*NASTY, ".", "..", ".a", "-a", "x" * 129])
def test_a_file_name_that_could_leave_its_folder_is_refused(name: str) -> None:
    """Our choice: a dump writes files under these names."""
    with pytest.raises(Invalid):
        check_file_name(name)
    assert check_file_name("system-Prompt_1.v2") == "system-Prompt_1.v2"


def test_emails_are_one_whatever_their_case() -> None:
    """Our choice: users are told apart by e-mail address."""
    assert check_email("Me@Example.TEST") == "me@example.test"
    for bad in ("", "me", "@x", "me@", "me@x y", "me@x\n", "m" * 65 + "@x"):
        with pytest.raises(Invalid):
            check_email(bad)


def test_metadata_keys_have_no_control_characters() -> None:
    """Our choice: keys are printed."""
    assert check_metadata_key("größe in m") == "größe in m"
    for bad in ("", "a\nb", "\x7f", "k" * 129):
        with pytest.raises(Invalid):
            check_metadata_key(bad)


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("@acme/fetch-page", Ref("acme", "fetch-page")),
        ("@acme/fetch-page@draft", Ref("acme", "fetch-page", "draft")),
        ("@acme/fetch-page@^1.2.0", Ref("acme", "fetch-page", "^1.2.0")),
        ("@acme/fetch-page@>=1 <2 || 3", Ref("acme", "fetch-page", ">=1 <2 || 3")),
    ],
)
def test_a_reference_comes_apart_and_together_again(text: str, ref: Ref) -> None:
    """Seed 3: ``@workspace/name`` and ``@workspace/name@1.2.0``."""
    assert parse_ref(text) == ref
    assert str(ref) == text


@pytest.mark.parametrize(
    "text",
    ["", "x", "acme/x", "@acme", "@acme/", "@/x", "@acme/x@", "@acme/x@ ", "@acme/+g", "@", "@/"],
)
@pytest.mark.parametrize("kind", ["tool", "prompt"])
def test_a_malformed_reference_is_told_what_it_lacks(text: str, kind) -> None:
    """Registry wire interface §5.2: every malformed reference."""
    with pytest.raises(Invalid) as caught:
        parse_ref(text, kind=kind)
    assert caught.value.code == "bad_ref"
    assert "@acme/" in str(caught.value)


def test_a_version_can_be_required_or_forbidden() -> None:
    """Registry wire interface §5.2: commands differ in this."""
    assert parse_ref("@a/b@1.0.0", version="required").version == "1.0.0"
    assert parse_ref("@a/b", version="forbidden").version is None
    for text, rule in (("@a/b", "required"), ("@a/b@1.0.0", "forbidden")):
        with pytest.raises(Invalid) as caught:
            parse_ref(text, version=rule)  # type: ignore[arg-type]
        assert caught.value.code == "bad_ref"


def test_a_workspace_reference_has_an_at_and_nothing_else() -> None:
    """Registry wire interface §5.2."""
    assert parse_workspace_ref("@acme") == "acme"
    for bad in ("acme", "@acme/x", "@", "@Acme", ""):
        with pytest.raises(Invalid):
            parse_workspace_ref(bad)


def test_prompts_that_generate_one_identifier_have_one_identity() -> None:
    """Registry wire interface §2.5: generated names replace these characters alike."""
    assert prompt_identity("a-b.c_d") == prompt_identity("a.b_c-d") == "a_b_c_d"
    assert prompt_identity("ab") != prompt_identity("a-b")
