"""Rules: last match wins, conditions, hidden tools."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raw_exec.errors import PolicyError
from raw_exec.policy import Evaluation, Predicate, Rule, RuleSet, Verdict, parse_rules
from raw_exec.schema import compile_schema

SCHEMA = compile_schema({"type": "object", "properties": {"path": {"type": "string"}}})
NUMBERS = compile_schema({"type": "object", "properties": {"path": {"type": "integer"}}})


def when(regex: str, source: str = "arguments") -> dict[str, str]:
    return {"source": source, "any": "path", "regex": regex}


def rule(match: str, effect: str, regex: str | None = None) -> dict[str, Any]:
    return {"match": match, "effect": effect} | ({} if regex is None else {"when": when(regex)})


def bind(*rules: dict[str, Any], identity: str = "local/t") -> Any:
    return parse_rules(list(rules)).bind(
        identity,
        condition_sources=("arguments", "effects"),
        schemas={"arguments": SCHEMA, "effects": SCHEMA},
    )


def decide(*rules: dict[str, Any], path: str = "a") -> tuple[str, int | None]:
    evaluation = bind(*rules).evaluate({"arguments": {"path": path}, "effects": None})
    decided = evaluation.rule.index if evaluation.rule else None
    return evaluation.verdict.name.lower(), decided


ALLOW, ASK, DENY = rule("*", "allow"), rule("*", "ask"), rule("*", "deny")
IF_A, IF_B = rule("*", "ask", "a"), rule("*", "ask", "b")
OTHER = rule("mcp/*", "deny")


@pytest.mark.parametrize(
    ("rules", "verdict", "decided_by"),
    [
        ([], "allow", None),
        ([OTHER], "allow", None),
        ([ALLOW], "allow", 0),
        ([ASK], "ask", 0),
        ([DENY], "deny", 0),
        ([DENY, ALLOW], "allow", 1),
        ([ALLOW, DENY], "deny", 1),
        ([DENY, ASK], "ask", 1),
        ([DENY, OTHER], "deny", 0),
        ([IF_A], "ask", 0),
        ([IF_B], "allow", None),
        ([IF_A, IF_B], "ask", 0),
        ([IF_A, IF_A], "ask", 1),
        ([ASK, IF_A], "ask", 1),
        ([ASK, IF_B], "ask", 0),
        ([ALLOW, IF_A], "ask", 1),
        ([ALLOW, IF_B], "allow", 0),
        ([IF_A, ALLOW], "allow", 1),
        ([IF_A, ALLOW, IF_B], "allow", 1),
        ([IF_A, ALLOW, IF_A, IF_B], "ask", 2),
        ([DENY, IF_A], "deny", 0),
        ([DENY, ALLOW, IF_A], "ask", 2),
        ([IF_A, DENY], "deny", 1),
    ],
)
def test_last_matching_rule_wins(
    rules: list[dict[str, Any]], verdict: str, decided_by: int | None
) -> None:
    """Contract-mandated; no match is allow, a condition that fails is no match."""
    assert decide(*rules) == (verdict, decided_by)


@pytest.mark.parametrize(
    ("rules", "hidden_by"),
    [
        ([], None),
        ([DENY], 0),
        ([DENY, ALLOW], None),
        ([DENY, ASK], None),
        ([ALLOW, DENY], 1),
        ([DENY, IF_A], 0),
        ([DENY, OTHER], 0),
        ([OTHER], None),
        ([IF_A], None),
    ],
)
def test_tool_is_hidden_while_its_last_unconditional_rule_denies(
    rules: list[dict[str, Any]], hidden_by: int | None
) -> None:
    """Contract-mandated: until a later unconditional rule allows it."""
    hidden = bind(*rules).hidden
    assert (hidden.index if hidden else None) == hidden_by


def test_evaluation_says_which_rule_string_and_pattern_decided() -> None:
    """The whole value, as history and approver show it."""
    policy = bind(OTHER, ASK, IF_A, rule("local/?", "ask", "^a"), IF_B)
    assert policy.evaluate({"arguments": {"path": "ab", "x": "b"}, "effects": None}) == Evaluation(
        Verdict.ASK,
        Rule(4, "*", "ask", Predicate("arguments", "path", "b")),
        {"source": "arguments", "pointer": "/path", "regex": "b"},
        (1, 2, 3, 4),
    )
    assert policy.evaluate({"arguments": {"path": "c"}, "effects": None}) == Evaluation(
        Verdict.ASK, Rule(1, "*", "ask"), None, (1, 2, 3, 4)
    )


def test_verdicts_are_ordered_by_strictness() -> None:
    """One ``max()`` combines independent gates."""
    assert Verdict.ALLOW < Verdict.ASK < Verdict.DENY
    assert [Rule(0, "*", e).verdict for e in ("allow", "ask", "deny")] == list(Verdict)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("raw", "code", "index"),
    [
        ({}, "rules_invalid", None),
        ("*", "rules_invalid", None),
        ([None], "rule_invalid", 0),
        ([ALLOW, {"match": "*"}], "rule_invalid", 1),
        ([{"effect": "ask"}], "rule_invalid", 0),
        ([{"match": "*", "effect": "allow", "why": "x"}], "rule_invalid", 0),
        ([{"match": ["*"], "effect": "allow"}], "rule_invalid", 0),
        ([{"match": "*", "effect": "warn"}], "rule_invalid", 0),
        ([{"match": "*", "effect": "ALLOW"}], "rule_invalid", 0),
        ([{"match": "", "effect": "allow"}], "glob_invalid", 0),
        ([rule("*", "allow", "a")], "rule_when_not_ask", 0),
        ([ALLOW, rule("*", "deny", "a")], "rule_when_not_ask", 1),
        ([{"match": "*", "effect": "ask", "when": None}], "predicate_invalid", 0),
        ([ALLOW, rule("*", "ask", "(")], "predicate_regex_invalid", 1),
    ],
)
def test_rule_of_another_shape_is_refused_with_its_index(
    raw: object, code: str, index: int | None
) -> None:
    """Strict: the operator hears about a typing mistake before any call."""
    with pytest.raises(PolicyError) as caught:
        parse_rules(raw)
    assert (caught.value.code, caught.value.rule) == (code, index)


@pytest.mark.parametrize(
    ("predicate", "sources", "code"),
    [
        (when("a", "effects"), ("arguments",), "predicate_source_undeclared"),
        (when("a", "effects"), ("effects",), "predicate_path_not_string"),
        ({**when("a"), "any": "file"}, ("arguments",), "predicate_path_unknown"),
    ],
)
def test_rule_that_cannot_bind_to_a_tool_it_matches_is_an_error(
    predicate: dict[str, str], sources: tuple[str, ...], code: str
) -> None:
    """Rule index, identity and path are named."""
    rules = parse_rules([ALLOW, {"match": "local/*", "effect": "ask", "when": predicate}, ALLOW])
    schemas = {"arguments": SCHEMA, "effects": NUMBERS}
    with pytest.raises(PolicyError) as caught:
        rules.bind("local/t", condition_sources=sources, schemas=schemas)
    assert (caught.value.code, caught.value.rule) == (code, 1)
    assert caught.value.where == "tools.rules[1].when for tool 'local/t'"
    if code != "predicate_source_undeclared":
        assert repr(predicate["any"]) in caught.value.message
    # The pair: it does not matter to a tool that the glob does not match.
    assert rules.bind("mcp/s/t").evaluate({}).verdict is Verdict.ALLOW


def test_rule_that_matches_no_selected_tool_is_only_reported() -> None:
    """A warning: the same rules may serve several agents."""
    rules = parse_rules([ALLOW, OTHER, rule("local/x?", "ask", "a")])
    assert rules.unmatched(["local/t", "builtin/bash"]) == (rules.rules[1], rules.rules[2])
    assert rules.unmatched(["mcp/a/b", "local/xy"]) == ()
    assert rules.unmatched([]) == rules.rules


def test_rule_sets_are_values() -> None:
    """Parsing twice gives equal sets."""
    assert parse_rules([ALLOW, IF_A]) == parse_rules((ALLOW, IF_A))
    assert hash(parse_rules([ALLOW])) == hash(parse_rules([ALLOW]))
    assert parse_rules([ALLOW]) != parse_rules([DENY])
    assert (
        repr(parse_rules([ALLOW]))
        == "RuleSet([Rule(index=0, match='*', effect='allow', when=None, review=False)])"
    )


def test_policy_without_conditions_does_not_look_at_the_call() -> None:
    """The common case is one attribute read."""
    policy = bind(ALLOW, OTHER)
    assert not policy.is_conditional
    assert policy.evaluate({}) is policy.evaluate({"arguments": object()})
    assert bind(IF_A).is_conditional


@given(
    rules=st.lists(
        st.tuples(
            st.sampled_from(["*", "local/*", "mcp/*", "local/?"]),
            st.sampled_from(["allow", "ask", "deny", "ask-a", "ask-b", "ask-none"]),
        ),
        max_size=8,
    ),
    path=st.sampled_from(["a", "b", "ab", "c"]),
)
def test_evaluation_agrees_with_the_definition(rules: list[tuple[str, str]], path: str) -> None:
    """The plain reading of the contract, rule by rule, without any shortcut."""
    raw = []
    for match, effect in rules:
        name, _, regex = effect.partition("-")
        raw.append(rule(match, name, regex or None))
    expected: tuple[str, int | None] = ("allow", None)
    hidden: int | None = None
    for index, item in enumerate(raw):
        if item["match"] == "mcp/*":
            continue
        if "when" not in item:
            expected = (item["effect"], index)
            hidden = index if item["effect"] == "deny" else None
        elif item["when"]["regex"] in path and hidden is None:
            expected = ("ask", index)
    assert decide(*raw, path=path) == expected
    policy = bind(*raw)
    assert (policy.hidden.index if policy.hidden else None) == hidden
    assert isinstance(parse_rules(raw), RuleSet)
