"""Documents that were right are kept by their text, nothing else is; one step instead of two."""

from __future__ import annotations

from dataclasses import replace

import pytest
from graphql import GraphQLError, specified_rules

from raw_exec.contracts import service as registry
from raw_exec.contracts.server import documents
from raw_exec.contracts.server.documents import InvalidDocument, read_document
from raw_exec.contracts.server.executing import load_schema
from raw_exec.contracts.server.limits import ServerLimits

LIMITS = ServerLimits()


@pytest.fixture(autouse=True)
def _nothing_is_kept_yet() -> None:
    """A memory that other tests filled would not grow, whatever is put into it."""
    documents._check_once.cache_clear()


def _kept() -> int:
    return documents._check_once.cache_info().currsize


def test_a_text_that_was_right_is_parsed_and_validated_once() -> None:
    """Speed: programs send the same few documents again and again."""
    text = "query Once($n: ID!) { tool(toolName: $n) { name } }"
    first = read_document(load_schema(), text, LIMITS, specified_rules)
    assert read_document(load_schema(), text, LIMITS, specified_rules) is first


def test_what_is_refused_is_refused_again_and_not_kept() -> None:
    """Fail closed: one verdict, however often it is asked for."""
    for text, kind in (("{ nothing }", InvalidDocument), ("{", GraphQLError)):
        for _ in range(2):
            with pytest.raises(kind):
                read_document(load_schema(), text, LIMITS, specified_rules)
    assert _kept() == 0


def test_a_text_that_one_server_takes_is_still_too_big_for_a_stricter_one() -> None:
    """Security: the limits are part of what a document is kept by."""
    text = "query Strict { me { memberships { workspace { name } } } }"
    read_document(load_schema(), text, LIMITS, specified_rules)
    with pytest.raises(GraphQLError) as caught:
        read_document(load_schema(), text, replace(LIMITS, depth=2), specified_rules)
    assert (caught.value.extensions or {})["rule"] == "query_too_deep"


def test_long_texts_are_answered_but_not_kept() -> None:
    """Security: what strangers send can not fill the memory."""
    text = "query Long { me { id } }" + " " * documents._KEPT_CHARS
    assert read_document(load_schema(), text, LIMITS, specified_rules).definitions
    assert _kept() == 0
    for number in range(2 * documents._KEPT):
        read_document(load_schema(), f"query Q{number} {{ me {{ id }} }}", LIMITS, specified_rules)
    assert _kept() == documents._KEPT


async def test_the_same_text_answers_every_caller_for_itself(member, serve, store, key_of) -> None:
    """Security: who asks is no part of what is kept."""
    text = "{ me { email } }"
    assert (await member.ask(text)).data == {"me": {"email": "member@acme.test"}}
    other = serve(store).of(token=key_of("owner@vendor.test"), workspace="vendor")
    assert (await other.ask(text)).data == {"me": {"email": "owner@vendor.test"}}
    nobody = await serve(store).of(token=None, workspace="acme").ask(text)
    assert nobody.rule[1:] == ("UNAUTHENTICATED", "needs_user")


async def test_a_version_in_one_step_is_the_version_in_two(member, anonymous, people) -> None:
    """Speed: one operation less; what may not be seen is refused in the same words."""
    people.publish(people.member, "acme", "t", "1.0.0")
    people.ask(people.member, registry.create_tool_draft, "acme", "t")
    chosen = "{ version status inputSchema tool { name visibility } }"
    variables = "($n: ID!, $c: String, $s: ToolVersionStatus)"
    one = f"query{variables} {{ toolVersion(toolName: $n, constraint: $c, status: $s) {chosen} }}"
    two = f"query{variables} {{ tool(toolName: $n) {{ version(constraint: $c, status: $s) "
    two += f"{chosen} }} }}"
    for constraint in (None, "^1", "^2", "draft", "1.0.1-draft.0"):
        for status in (None, "DRAFT", "PUBLISHED"):
            asked = {"n": "t", "c": constraint, "s": status}
            nested = (await member.ask(two, **asked)).data["tool"]["version"]
            assert (await member.ask(one, **asked)).data == {"toolVersion": nested}
    for asker, asked in (
        (anonymous, {"n": "t"}),
        (member, {"n": "nothing"}),
        (member, {"n": "a\0"}),
    ):
        told = [await asker.ask(text, **asked) for text in (one, two)]
        assert told[0].rule == told[1].rule
        assert told[0].error["message"] == told[1].error["message"]
    assert (await member.ask(one, n="t", c="latest")).rule[2] == "bad_constraint"
