"""What ``raw tools explain`` says about rules and about one call that is not made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..config import AgentConfig
from ..errors import CallRefused
from ..hooks import HookSet
from ..hooks.describe import describe_subscription
from ..manifest.hook import TOOL_EVENTS
from ..policy import Evaluation, Rule, Verdict, compile_glob
from ..tools import Tool

if TYPE_CHECKING:
    from ..runtime import Runtime

__all__ = [
    "Judgement",
    "describe_hooks",
    "describe_rules",
    "judge_call",
    "judge_without_arguments",
]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What would happen to a call.

    Args:
        would: ``run``, ``ask``, ``depends`` (on the arguments) or ``refuse``.
        message: The same in words.
        stage: Where it would be decided.
        code: Of a refusal.
        rule: Index of the rule that decides, if one does.
        matched: What a conditional rule matched.
        effects: The intended effects, when the tool describes them.
    """

    would: str
    message: str
    stage: str
    code: str | None = None
    rule: int | None = None
    matched: dict[str, str] | None = None
    effects: Any = None

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {
            "would": self.would,
            "message": self.message,
            "stage": self.stage,
            "code": self.code,
            "rule": self.rule,
            "matched": self.matched,
            "effects": self.effects,
        }


def describe_rules(agent: AgentConfig, identity: str) -> list[dict[str, Any]]:
    """Return the rules whose glob matches, and what each can still decide."""
    matching = [rule for rule in agent.rules.rules if compile_glob(rule.match).match(identity)]
    last = max((rule.index for rule in matching if rule.when is None), default=-1)
    denied = any(rule.index == last and rule.effect == "deny" for rule in matching)
    return [
        {
            "index": rule.index,
            "match": rule.match,
            "effect": rule.effect,
            "when": _when(rule),
            "review": rule.review,
            "role": _role(rule, last, denied),
        }
        for rule in matching
    ]


def _when(rule: Rule) -> dict[str, str] | None:
    if rule.when is None:
        return None
    return {"source": rule.when.source, "any": rule.when.any, "regex": rule.when.regex}


def _role(rule: Rule, last: int, denied: bool) -> str:
    if rule.index < last:
        return f"overridden by rule {last}"
    if rule.index == last:
        return "decides when no later one matches"
    return f"no effect: rule {last} denies the tool" if denied else "decides when it matches"


def describe_hooks(
    hooks: HookSet, tool: Tool, judgement: Judgement, arguments: Any
) -> list[dict[str, Any]]:
    """Return the hooks whose glob matches the tool, and whether each would be told.

    Args:
        hooks: The selected hooks.
        tool: The tool.
        judgement: What would happen to the call before hooks.
        arguments: Of the call, ``None`` when there are none to go by.
    """
    rows = []
    for hook in hooks.hooks:
        for entry in hook.manifest.events:
            if entry.event not in TOOL_EVENTS or not entry.reaches(tool.identity):
                continue
            runs: bool | None = True
            if judgement.would == "refuse":
                runs = False
            elif entry.when is not None:
                source = arguments if entry.when.source == "arguments" else judgement.effects
                bound = hook.predicates[entry.index, tool.identity]
                runs = None if arguments is None else bound.match(source) is not None
            rows.append({"hook": hook.identity, **describe_subscription(entry), "runs": runs})
    return rows


def judge_without_arguments(tool: Tool) -> Judgement:
    """Say what the rules alone decide."""
    hidden = tool.policy.hidden
    if hidden is not None:
        return Judgement(
            "refuse",
            f"rule {hidden.index} (match {hidden.match!r}) denies the tool; no model sees it",
            "exposure",
            "tool_denied",
            hidden.index,
        )
    if tool.policy.is_conditional:
        return Judgement(
            "depends",
            "some arguments would be sent to approval; give --args to judge a call",
            "rules",
        )
    return _from_evaluation(tool.policy.evaluate({"arguments": None, "effects": None}), None)


def _from_evaluation(evaluation: Evaluation, effects: Any) -> Judgement:
    rule = evaluation.rule
    index = None if rule is None else rule.index
    matched = None if evaluation.matched is None else dict(evaluation.matched)
    if evaluation.verdict is Verdict.ASK:
        why = f"rule {index} asks"
        if matched is not None:
            why += f", since {matched['source']} {matched['pointer']} matches {matched['regex']!r}"
        return Judgement("ask", f"approval: {why}", "approval", None, index, matched, effects)
    why = "no rule matches" if rule is None else f"rule {index} allows it"
    return Judgement("run", f"the handler would run: {why}", "rules", None, index, None, effects)


async def judge_call(runtime: Runtime, tool: Tool, arguments: Any, cwd: str) -> Judgement:
    """Take a call through the stages before hooks, and no further.

    Runs ``validateArgs`` and ``describeEffects`` where a real call would; never the handler.
    """
    try:
        call = await runtime.judge(tool.name, arguments, cwd=cwd)
    except CallRefused as refusal:
        rule = refusal.detail.get("rule", {})
        return Judgement(
            "refuse",
            refusal.message,
            refusal.stage,
            refusal.code,
            rule.get("index"),
            effects=refusal.detail.get("effects"),
        )
    assert call.evaluation is not None  # noqa: S101  (the last of the stages sets it)
    return _from_evaluation(call.evaluation, call.effects)
