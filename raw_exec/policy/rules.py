"""Rules: which tools run, which ask, which are denied.

Semantics (seed 2, and the configuration contract):

* rules are ordered, and the last one that matches wins; no match means allow;
* ``match`` is a glob over the whole identity of a tool;
* ``when`` is allowed on ``ask`` only; such a rule matches a call if its predicate does;
* ``review`` is allowed on ``ask`` only; such a rule asks after the run, before what it changed
  is committed, and fits only a tool that runs on a copy-on-write view without network;
* a tool whose last unconditional match is ``deny`` is hidden from the model, and no
  conditional rule brings it back.

A rule set is bound to each selected tool once, at load. Rules before the last
unconditional match can never win, so a bound policy does not look at them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, Literal, cast

from ..errors import PolicyError
from ..schema import CompiledSchema
from .glob import Matcher, compile_glob
from .predicate import BoundPredicate, Predicate, PredicateSet, bind_predicate, parse_predicate

__all__ = ["Effect", "Evaluation", "Rule", "RuleSet", "ToolPolicy", "Verdict", "parse_rules"]


class Verdict(IntEnum):
    """What to do with a call. The strictest is the largest."""

    ALLOW = 0
    ASK = 1
    DENY = 2


Effect = Literal["allow", "ask", "deny"]
_VERDICTS: Final[dict[str, Verdict]] = {verdict.name.lower(): verdict for verdict in Verdict}
_FIELDS: Final = ("match", "effect", "when", "review")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Args:
        index: Position in ``tools.rules``, from 0.
        match: Glob over the identity.
        effect: What it decides, as written.
        when: Condition, only with ``"ask"``.
        review: Ask about what the call changed instead of about the call.
    """

    index: int
    match: str
    effect: Effect
    when: Predicate | None = None
    review: bool = False

    @property
    def verdict(self) -> Verdict:
        """The effect as an ordered verdict."""
        return _VERDICTS[self.effect]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A verdict and where it comes from.

    Args:
        verdict: What to do.
        rule: The rule that decided; None if no rule matched.
        matched: ``source``, ``pointer`` and ``regex`` of a conditional rule's match.
        considered: Indexes of the rules that could have decided, in order.
    """

    verdict: Verdict
    rule: Rule | None
    matched: Mapping[str, str] | None
    considered: tuple[int, ...]


class ToolPolicy:
    """The rules of one tool. Only ``RuleSet.bind`` makes one.

    Attributes:
        identity: The tool's policy identity.
        hidden: The ``deny`` rule that hides the tool, if one does.
        reviewing: The rules with ``review`` that could decide a call.
    """

    __slots__ = ("_conditional", "_default", "_predicates", "hidden", "identity", "reviewing")

    def __init__(
        self, identity: str, base: Rule | None, conditional: Sequence[tuple[Rule, BoundPredicate]]
    ) -> None:
        self.identity = identity
        self.hidden = base if base is not None and base.effect == "deny" else None
        self._conditional = () if self.hidden else tuple(rule for rule, _ in conditional)
        deciding = (*self._conditional, *(() if base is None else (base,)))
        self.reviewing = tuple(rule for rule in deciding if rule.review)
        self._predicates = PredicateSet([bound for _, bound in conditional])
        considered = () if base is None else (base.index,)
        self._default = Evaluation(
            Verdict.ALLOW if base is None else base.verdict,
            base,
            None,
            (*considered, *(rule.index for rule in self._conditional)),
        )

    @property
    def is_conditional(self) -> bool:
        """Whether ``evaluate`` looks at the call at all."""
        return bool(self._conditional)

    def evaluate(self, sources: Mapping[str, Any]) -> Evaluation:
        """Judge one call.

        Args:
            sources: ``{"arguments": ..., "effects": ...}``; None where there are none.
        """
        if not self._conditional:
            return self._default
        matches = self._predicates.evaluate(sources)
        if not matches:
            return self._default
        last = max(matches)
        rule = self._conditional[last]
        # Invariant: only rules with a predicate are in `_conditional`.
        assert rule.when is not None  # noqa: S101
        matched = {
            "source": rule.when.source,
            "pointer": matches[last],
            "regex": rule.when.regex,
        }
        return Evaluation(rule.verdict, rule, matched, self._default.considered)


class RuleSet:
    """Parsed rules of one agent, in order. Use ``parse_rules``."""

    __slots__ = ("_matchers", "rules")

    def __init__(self, rules: Iterable[tuple[Rule, Matcher]]) -> None:
        pairs = tuple(rules)
        self.rules = tuple(rule for rule, _ in pairs)
        self._matchers = tuple(matcher for _, matcher in pairs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RuleSet) and self.rules == other.rules

    def __hash__(self) -> int:
        return hash(self.rules)

    def __repr__(self) -> str:
        return f"RuleSet({list(self.rules)!r})"

    def bind(
        self,
        identity: str,
        *,
        condition_sources: Collection[str] = (),
        schemas: Mapping[str, CompiledSchema | None] | None = None,
    ) -> ToolPolicy:
        """Return the policy of one tool.

        Every conditional rule whose glob matches must fit the tool, even one that a
        later rule overrides: a rule that cannot work is a mistake to hear about.

        Args:
            identity: For example ``"local/append_notes"``.
            condition_sources: The sources that the tool lets predicates inspect.
            schemas: The tool's schema per source.

        Raises:
            PolicyError: From ``bind_predicate``, with rule and identity.
        """
        base: Rule | None = None
        conditional: list[tuple[Rule, BoundPredicate]] = []
        for rule, matcher in zip(self.rules, self._matchers, strict=True):
            if not matcher.match(identity):
                continue
            if rule.when is None:
                base = rule
                conditional.clear()
                continue
            bound = bind_predicate(
                rule.when,
                condition_sources=condition_sources,
                schemas=schemas or {},
                where=f"tools.rules[{rule.index}].when for tool {identity!r}",
                rule=rule.index,
            )
            conditional.append((rule, bound))
        return ToolPolicy(identity, base, conditional)

    def unmatched(self, identities: Iterable[str]) -> tuple[Rule, ...]:
        """Return the rules whose glob matches none of the selected tools: worth a warning."""
        names = tuple(identities)
        return tuple(
            rule
            for rule, matcher in zip(self.rules, self._matchers, strict=True)
            if not any(map(matcher.match, names))
        )


def parse_rules(raw: object) -> RuleSet:
    """Read ``tools.rules``, strictly.

    Args:
        raw: A list of ``{"match": glob, "effect": "allow"|"ask"|"deny", "when"?: predicate,
            "review"?: bool}``.

    Raises:
        PolicyError: ``rules_invalid``, ``rule_invalid``, ``rule_when_not_ask``,
            ``rule_review_not_ask``, ``glob_invalid``, ``predicate_invalid`` or
            ``predicate_regex_invalid``.
    """
    if not isinstance(raw, list | tuple):
        raise PolicyError("rules_invalid", f"rules must be a list, not {raw!r:.100}")
    return RuleSet(_parse_rule(item, index) for index, item in enumerate(raw))


def _parse_rule(raw: object, index: int) -> tuple[Rule, Matcher]:
    where = f"tools.rules[{index}]"

    def fail(message: str, hint: str | None = None, code: str = "rule_invalid") -> PolicyError:
        return PolicyError(code, message, where=where, hint=hint, rule=index)

    if not isinstance(raw, dict):
        raise fail(f"a rule must be an object, not {raw!r:.100}")
    for name in raw:
        if name not in _FIELDS:
            raise fail(f"unknown field {name!r:.100}", f"valid fields: {', '.join(_FIELDS)}")
    for name in ("match", "effect"):
        if name not in raw:
            raise fail(f"field {name!r} is missing")
        if not isinstance(raw[name], str):
            raise fail(f"{name!r} must be a string, not {raw[name]!r:.100}")
    if raw["effect"] not in _VERDICTS:
        raise fail(
            f"effect {raw['effect']!r:.100} is unknown", f"valid effects: {', '.join(_VERDICTS)}"
        )
    effect = cast(Effect, raw["effect"])
    try:
        matcher = compile_glob(raw["match"])
    except PolicyError as exc:
        raise fail(exc.message, exc.hint, code=exc.code) from exc
    when = None
    if "when" in raw:
        if effect != "ask":
            raise fail(
                f"'when' is not allowed with effect {raw['effect']!r}",
                "only 'ask' takes a condition",
                code="rule_when_not_ask",
            )
        when = parse_predicate(raw["when"], where=f"{where}.when", rule=index)
    review = raw.get("review", False)
    if not isinstance(review, bool):
        raise fail(f"'review' must be true or false, not {review!r:.100}")
    if review and effect != "ask":
        raise fail(
            f"'review' is not allowed with effect {raw['effect']!r}",
            "only 'ask' can be answered after the run",
            code="rule_review_not_ask",
        )
    return Rule(index, matcher.pattern, effect, when, review), matcher
