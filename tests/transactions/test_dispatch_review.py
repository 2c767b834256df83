"""A rule with ``review``: the question comes after the run and before the commit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from raw_exec.approval import Answer, ApprovalRequest, render_request
from raw_exec.dispatch.pipeline import STAGE_NAMES
from raw_exec.errors import PolicyError
from raw_exec.policy import parse_rules
from tests.transactions.world import World, open_world, tree

REVIEW = {"match": "agent/observed*", "effect": "ask", "review": True}
SHELL = {"match": "builtin/bash", "effect": "ask", "review": True}
pytestmark = pytest.mark.slow


class Approver:
    """Keeps what it was asked, with the state of the workspace at that moment."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[ApprovalRequest] = []
        self.trees: list[dict[str, Any]] = []
        self.look: Callable[[], dict[str, Any]] = dict

    def __call__(self, request: ApprovalRequest) -> Any:
        self.asked.append(request)
        self.trees.append(self.look())
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def change(world: World, **options: Any) -> Any:
    code = "open('a','w').write('one\\nnew\\n'); os.unlink('gone')"
    return await world.run("observed", code, world.writes("a"), **options)


async def test_what_was_changed_is_shown_before_it_is_committed(tmp_path: Path) -> None:
    """The real diff beside the declared effects; a yes commits."""
    approver = Approver("allow")
    async with open_world(tmp_path, rules=[REVIEW], approve=approver) as world:
        world.fill(a="one\nold\n", gone="g")
        before = tree(world.ws)
        approver.look = lambda: tree(world.ws)
        told = await change(world)
        assert (told.code, told.committed) == (None, True), told
        (request,) = approver.asked
        assert approver.trees == [before]
        assert request.effects == {"files": world.writes("a")}
        assert request.changes is not None
        assert [(c["path"], c["action"], c["declared"]) for c in request.changes] == [
            (str(world.ws / "a"), "write", True),
            (str(world.ws / "gone"), "delete", False),
        ]
        assert request.change_count == 2
        assert request.diff is not None
        assert "-old" in request.diff
        assert "+new" in request.diff
        shown = render_request(request)
        assert "Commit the changes of agent/observed_telling" in shown
        assert "(not described)" in shown
        assert "+new" in shown
        assert request.as_dict()["changeCount"] == 2
        assert list(tree(world.ws)) == ["a"]
        # Nothing changed, nothing to ask.
        told = await world.run("observed", "said = open('a').read()")
        assert (told.code, told.committed, len(approver.asked)) == (None, True, 1)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (Answer(False, "not that"), "approval_denied"),
        (RuntimeError("broken"), "approval_denied"),
        ("perhaps", "approval_denied"),
        (None, "approval_required"),
    ],
)
async def test_without_a_yes_nothing_is_committed(answer: Any, code: str, tmp_path: Path) -> None:
    """A no, a broken approver, a wrong word, and nobody to ask."""
    approver = None if answer is None else Approver(answer)
    async with open_world(tmp_path, rules=[REVIEW], approve=approver) as world:
        world.fill(a="one\n", gone="g")
        before = tree(world.ws)
        told = await change(world)
        assert (told.code, told.stage, told.committed) == (code, "settle", False), told
        assert len(told.changes) == 2
        assert tree(world.ws) == before
        dry = await change(world, dry_run=True)
        assert (dry.code, dry.committed, len(dry.changes)) == (None, False, 2)
        assert len(approver.asked if approver else []) == (0 if approver is None else 1)


async def test_a_shell_command_is_approved_as_a_diff(tmp_path: Path) -> None:
    """``builtin/bash``: one command refused, one approved; control characters stay visible."""
    approver = Approver("deny")
    async with open_world(tmp_path, rules=[SHELL], approve=approver) as world:
        world.fill(a="one\n")
        bash = world.runtime.registry.dispatch
        script = {"commands": [{"command": "printf 'two\\033[2J\\n' >> a"}]}
        told = await bash("bash", script)
        assert (told.code, (world.ws / "a").read_text()) == ("approval_denied", "one\n")
        approver.answer = "allow"
        told = await bash("bash", script)
        assert (told.code, told.committed) == (None, True)
        assert (world.ws / "a").read_text() == "one\ntwo\x1b[2J\n"
        for request in approver.asked:
            assert request.diff is not None
            assert "+two" in request.diff
            assert "\x1b" not in request.diff + render_request(request)


async def test_hooks_are_told_of_the_settled_result(tmp_path: Path) -> None:
    """A call whose changes are withheld failed, whatever its handler returned."""
    order = list(STAGE_NAMES.values())
    assert order.index("result") < order.index("settle") < order.index("post_hooks")
    told: list[tuple[str | None, bool | None]] = []

    async def hook(call: Any, result: Any) -> None:
        told.append((result.get("code"), call.committed))

    async with open_world(tmp_path) as world:
        services = world.runtime._services
        object.__setattr__(services, "post_hooks", hook)
        await world.run("enforced", "open('n','w').close()")
        await world.run("observed", "open('n','w').close()")
        await world.run("observed", "raise KeyError")
    assert told == [("undeclared_effects", False), (None, True), ("handler_error", False)]


async def test_an_outcome_is_recorded_with_what_became_of_its_changes(tmp_path: Path) -> None:
    """The audit log: whether they were committed, and how many there were."""
    log = tmp_path / "audit"
    async with open_world(tmp_path, audit=log) as world:
        await world.run("declared", "pass")
        await world.run("observed", "open('n','w').close()")
        await world.run("enforced", "open('m','w').close()")
    records = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(r["code"], r["committed"], r["usage"].get("changes")) for r in records] == [
        (None, None, None),
        (None, True, 1),
        ("undeclared_effects", False, 1),
    ]


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ({"match": "*", "effect": "allow", "review": True}, "rule_review_not_ask"),
        ({"match": "*", "effect": "deny", "review": True}, "rule_review_not_ask"),
        ({"match": "*", "effect": "ask", "review": "yes"}, "rule_invalid"),
    ],
)
def test_review_is_a_field_of_ask_rules_only(rule: dict[str, Any], code: str) -> None:
    """Refused at load, with the rule."""
    with pytest.raises(PolicyError) as caught:
        parse_rules([{"match": "*", "effect": "ask"}, rule])
    assert (caught.value.code, caught.value.rule) == (code, 1)
    assert parse_rules([{"match": "*", "effect": "ask", "review": True}]).rules[0].review
