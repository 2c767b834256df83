"""What a client at the pipes gets, in either era."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from raw_exec.adapters.mcp_server import Host
from raw_exec.adapters.mcp_server.calls import MAX_ASKED, NoAnswer, RunningCall
from raw_exec.adapters.mcp_server.eras import SERVER_INFO, Era
from raw_exec.adapters.mcp_server.host import HostStatistics
from raw_exec.adapters.mcp_server.protocol import ToolCall

from .support import Wire, open_wire, stateless, wait_dead, wait_file

NAMES = ["echo", "hang", "progress", "ask", "data", "guarded"]
ACCEPTED = {"action": "accept", "content": {"name": "Ada", "size": "l", "tags": ["b"]}}


def _text(answer: dict[str, Any]) -> str:
    (block,) = answer["result"]["content"]
    return str(block["text"])


async def test_the_handshake_era_lists_and_calls(wire: Wire) -> None:
    """Spec 2025-11-25: the version asked for is the version served."""
    assert (await wire.initialize())["protocolVersion"] == "2025-11-25"
    listed = await wire.ask("tools/list")
    assert [tool["name"] for tool in listed["result"]["tools"]] == NAMES
    assert set(listed["result"]["tools"][0]) == {"name", "description", "inputSchema"}
    answer = await wire.ask("tools/call", name="echo", arguments={"text": "hi"})
    assert answer["result"] == {"content": [{"type": "text", "text": "hi"}]}
    assert await wire.ask("ping") == {"id": 4, "result": {}}


async def test_the_stateless_era_lists_and_calls(wire: Wire) -> None:
    """Spec 2026-07-28: every result says what it is, and who answers."""
    meta = stateless()
    found = (await wire.ask("server/discover", _meta=meta))["result"]
    assert found["supportedVersions"] == ["2026-07-28"]
    listed = (await wire.ask("tools/list", _meta=meta))["result"]
    assert [tool["name"] for tool in listed["tools"]] == NAMES
    for result in (found, listed):
        assert (result["resultType"], result["cacheScope"]) == ("complete", "private")
        assert result["ttlMs"] > 0
    answer = await wire.ask("tools/call", _meta=meta, name="echo", arguments={"text": "hi"})
    assert answer["result"]["resultType"] == "complete"
    assert answer["result"]["_meta"][SERVER_INFO]["name"] == "raw-exec"
    assert _text(answer) == "hi"


@pytest.mark.parametrize("asked", ["2025-06-18", "2025-11-25", "2024-11-05", "2099-01-01"])
async def test_the_version_is_one_that_is_served(wire: Wire, asked: str) -> None:
    """Spec: any other version is answered with the latest that has a handshake."""
    served = asked if asked == "2025-06-18" else "2025-11-25"
    assert (await wire.initialize(asked))["protocolVersion"] == served


async def test_structured_content_fits_the_era_and_never_stands_with_an_error(wire: Wire) -> None:
    """An older client refuses a list, and a whole result for it."""
    await wire.initialize()

    async def structured(kind: str, **params: Any) -> Any:
        answer = await wire.ask("tools/call", name="data", arguments={"kind": kind}, **params)
        return answer["result"].get("structuredContent")

    assert await structured("object") == {"a": 1}
    assert await structured("list") is None
    assert await structured("failed") is None
    assert await structured("list", _meta=stateless()) == [1, 2]
    assert await structured("failed", _meta=stateless()) is None


async def test_wrong_arguments_are_the_tools_error_and_an_unknown_tool_the_protocols(
    wire: Wire,
) -> None:
    """Spec 2025-11-25: a model can do better with the first only."""
    await wire.initialize()
    wrong = (await wire.ask("tools/call", name="echo", arguments={"txt": 1}))["result"]
    assert wrong["isError"] is True
    assert wrong["_meta"] == {"raw/code": "invalid_arguments"}
    assert "text" in wrong["content"][0]["text"]
    assert (await wire.ask("tools/call", name="nothing"))["error"]["code"] == -32602
    assert (await wire.ask("resources/list"))["error"]["code"] == -32601


async def test_progress_rises_and_ends_before_the_answer(wire: Wire) -> None:
    """Spec: strictly increasing, with the token that was sent, none after the end."""
    await wire.initialize()
    params = {"name": "progress", "arguments": {"steps": 40}, "_meta": {"progressToken": "p"}}
    request_id = await wire.request("tools/call", **params)
    seen = []
    while "id" not in (message := await wire.receive()):
        assert message["method"] == "notifications/progress"
        assert message["params"]["progressToken"] == "p"
        seen.append((message["params"]["progress"], message["params"]["total"]))
    assert message["id"] == request_id
    assert seen == sorted(set(seen))
    # A screen's rate: far fewer than there were updates, and the last one is among them.
    assert seen[-1] == (40, 40)
    assert len(seen) < 20
    assert _text(await wire.ask("tools/call", name="progress", arguments={"steps": 3})) == "done"


async def test_a_cancelled_call_is_dead_and_gets_no_answer(
    wire: Wire, host: Host, tmp_path: Path
) -> None:
    """Spec: stop the work, send nothing."""
    await wire.initialize()
    call = await wire.request("tools/call", name="hang", arguments={})
    await wait_file(tmp_path / "cwd" / "running")
    await wire.send({"method": "notifications/cancelled", "params": {"requestId": call}})
    await wait_dead(host)
    assert (await wire.ask("ping"))["result"] == {}


# ---------------------------------------------------------------- people


async def test_a_question_is_a_form_of_the_client(wire: Wire) -> None:
    """Text, one of several, several of several, one to one; labels escaped."""
    await wire.initialize(elicitation={})
    call = await wire.request("tools/call", name="ask", arguments={})
    asked = await wire.receive()
    assert asked["method"] == "elicitation/create"
    assert asked["params"]["message"] == "Question from agent/ask: Your order"
    assert asked["params"]["requestedSchema"] == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "title": "Your\\u{202e} name", "maxLength": 8192},
            "size": {
                "type": "string",
                "title": "Size",
                "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}],
            },
            "tags": {
                "type": "array",
                "title": "Tags",
                "minItems": 0,
                "maxItems": 2,
                "items": {"anyOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]},
            },
        },
        "required": ["name", "size"],
    }
    await wire.send({"id": asked["id"], "result": ACCEPTED})
    answer = await wire.receive()
    assert answer["id"] == call
    assert answer["result"]["structuredContent"] == ACCEPTED["content"]


async def test_answers_that_do_not_fit_are_asked_again(wire: Wire) -> None:
    """The person may correct them, and is told what was wrong."""
    await wire.initialize(elicitation={"form": {}})
    await wire.request("tools/call", name="ask", arguments={})
    first = await wire.receive()
    wrong = {"action": "accept", "content": {"name": "Ada", "size": "xl"}}
    await wire.send({"id": first["id"], "result": wrong})
    second = await wire.receive()
    assert second["id"] != first["id"]
    assert "'xl' is no option" in second["params"]["message"]
    await wire.send({"id": second["id"], "result": ACCEPTED})
    assert (await wire.receive())["result"]["structuredContent"]["size"] == "l"


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ({"result": {"action": "decline"}}, "interaction_cancelled"),
        ({"result": {"action": "cancel"}}, "interaction_cancelled"),
        ({"error": {"code": -1, "message": "no"}}, "interaction_cancelled"),
    ],
)
async def test_a_question_without_an_answer_says_so_to_the_tool(
    wire: Wire, reply: dict[str, Any], code: str
) -> None:
    """Declined, dismissed, or refused by the client."""
    await wire.initialize(elicitation={})
    await wire.request("tools/call", name="ask", arguments={})
    asked = await wire.receive()
    await wire.send({"id": asked["id"], **reply})
    assert (await wire.receive())["result"]["_meta"] == {"raw/code": code}


async def test_a_client_without_forms_is_told_what_is_missing(wire: Wire) -> None:
    """Approval_required, interaction_unavailable, at once."""
    await wire.initialize(elicitation={"url": {}})
    asked = await wire.ask("tools/call", name="ask", arguments={})
    assert asked["result"]["_meta"] == {"raw/code": "interaction_unavailable"}
    guarded = await wire.ask("tools/call", name="guarded", arguments={"text": "x"})
    assert guarded["result"]["_meta"] == {"raw/code": "approval_required"}
    stated = await wire.ask(
        "tools/call", name="guarded", arguments={"text": "x"}, _meta=stateless()
    )
    assert stated["result"]["_meta"]["raw/code"] == "approval_required"


async def test_only_an_explicit_yes_approves(wire: Wire) -> None:
    """Security: a form that is sent back untouched, or half filled in, allows nothing."""
    await wire.initialize(elicitation={})
    replies: list[tuple[dict[str, Any], str | None]] = [
        ({"action": "accept", "content": {"decision": "allow"}}, None),
        ({"action": "accept", "content": {"decision": "deny"}}, "approval_denied"),
        ({"action": "accept", "content": {}}, "approval_denied"),
        ({"action": "accept"}, "approval_denied"),
        ({"action": "accept", "content": {"decision": True}}, "approval_denied"),
        ({"action": "decline", "content": {"decision": "allow"}}, "approval_denied"),
        ({"action": "yes", "content": {"decision": "allow"}}, "approval_denied"),
        ({}, "approval_denied"),
    ]
    for reply, code in replies:
        await wire.request("tools/call", name="guarded", arguments={"text": "a\u202eb"})
        asked = await wire.receive()
        assert '"text": "a\\u{202e}b"' in asked["params"]["message"]
        assert asked["params"]["requestedSchema"]["required"] == ["decision"]
        await wire.send({"id": asked["id"], "result": reply})
        result = (await wire.receive())["result"]
        assert result.get("_meta", {}).get("raw/code") == code, reply


async def test_a_late_answer_to_the_question_of_an_aborted_call_means_nothing(
    wire: Wire, host: Host
) -> None:
    """The call has ended and gets no answer; the connection goes on."""
    await wire.initialize(elicitation={})
    call = await wire.request("tools/call", name="ask", arguments={})
    asked = await wire.receive()
    await wire.send({"method": "notifications/cancelled", "params": {"requestId": call}})
    told = await wire.receive()
    assert told["method"] == "notifications/cancelled"  # so that its form is taken away
    assert told["params"]["requestId"] == asked["id"]
    await wire.send({"id": asked["id"], "result": ACCEPTED})
    await wait_dead(host)
    assert host.statistics().open_questions == 0
    assert (await wire.ask("ping"))["result"] == {}


async def test_a_stateless_question_takes_two_requests(wire: Wire, host: Host) -> None:
    """Spec 2026-07-28: the answer to the first is the question."""
    meta = stateless(elicitation={})
    first = (await wire.ask("tools/call", _meta=meta, name="ask", arguments={}))["result"]
    assert first["resultType"] == "input_required"
    assert list(first["inputRequests"]) == ["order"]
    assert first["inputRequests"]["order"]["method"] == "elicitation/create"
    assert host.statistics() == HostStatistics(served=0, calls=1, open_questions=1, detached=1)
    # Nothing, or nothing of use, was answered: the same is asked again, under a new state.
    empty = await wire.ask(
        "tools/call",
        _meta=meta,
        name="ask",
        arguments={},
        requestState=first["requestState"],
        inputResponses={"other": ACCEPTED},
    )
    second = empty["result"]
    assert second["inputRequests"] == first["inputRequests"]
    assert second["requestState"] != first["requestState"]
    done = await wire.ask(
        "tools/call",
        _meta=meta,
        name="ask",
        arguments={},
        requestState=second["requestState"],
        inputResponses={"order": ACCEPTED},
    )
    assert done["result"]["structuredContent"] == ACCEPTED["content"]
    assert host.statistics() == HostStatistics(served=0, calls=0, open_questions=0, detached=0)


async def test_a_state_serves_its_own_call_once(wire: Wire, host: Host) -> None:
    """Security: nobody can approve another call, or the same one twice."""
    meta = stateless(elicitation={})
    call = {"_meta": meta, "name": "guarded", "arguments": {"text": "x"}}
    first = (await wire.ask("tools/call", **call))["result"]
    allow = {"approval": {"action": "accept", "content": {"decision": "allow"}}}
    answers = {"requestState": first["requestState"], "inputResponses": allow}

    async def refused(**changed: Any) -> bool:
        answer = await wire.ask("tools/call", **{**call, **answers, **changed})
        return bool(answer.get("error", {}).get("code") == -32602)

    assert await refused(arguments={"text": "y"})
    assert await refused(name="echo")
    assert await refused(requestState=first["requestState"] + "x")
    assert await refused(inputResponses={"approval": {"action": "allow"}})
    async with open_wire(host) as other:
        answer = await other.ask("tools/call", **call, **answers)
        assert answer["error"]["code"] == -32602
    assert _text(await wire.ask("tools/call", **call, **answers)) == "x"
    assert await refused()


async def test_an_approval_can_not_come_before_its_question(wire: Wire) -> None:
    """Security: it counts for what was shown; the answer to a tool's question may come along."""
    meta = stateless(elicitation={})
    allow = {"approval": {"action": "accept", "content": {"decision": "allow"}}}
    early = await wire.ask(
        "tools/call", _meta=meta, name="guarded", arguments={"text": "x"}, inputResponses=allow
    )
    assert early["result"]["resultType"] == "input_required"
    given = await wire.ask(
        "tools/call", _meta=meta, name="ask", arguments={}, inputResponses={"order": ACCEPTED}
    )
    assert given["result"]["structuredContent"] == ACCEPTED["content"]


async def test_a_call_has_so_many_open_questions_and_no_more(host: Host) -> None:
    """Each is kept until it is answered; one that was withdrawn makes room."""
    tool = host.catalog().find(Era.STATELESS, "ask")
    assert tool is not None
    wanted = ToolCall(1, Era.STATELESS, "2026-07-28", tool, {}, None, elicits=True)
    call = RunningCall(wanted, "owner", "place")
    async with trio.open_nursery() as nursery:
        first = trio.CancelScope()

        async def ask_first() -> None:
            with first:
                await call.ask("order", {})

        nursery.start_soon(ask_first)
        for _ in range(MAX_ASKED - 1):
            nursery.start_soon(call.ask, "order", {})
        await trio.testing.wait_all_tasks_blocked()
        assert len(call.asked) == MAX_ASKED
        with pytest.raises(NoAnswer, match=f"asks {MAX_ASKED} questions already"):
            await call.ask("order", {})
        first.cancel()
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(call.ask, "order", {})
        await trio.testing.wait_all_tasks_blocked()
        assert len(call.asked) == MAX_ASKED
        for one in call.asked.values():
            one.answer({"action": "decline"})


async def test_an_answer_counts_for_the_question_that_was_shown(host: Host) -> None:
    """Security: a tool could give its question the name of the approval that follows it."""
    tool = host.catalog().find(Era.STATELESS, "guarded")
    assert tool is not None
    wanted = ToolCall(1, Era.STATELESS, "2026-07-28", tool, {}, None, elicits=True)
    call = RunningCall(wanted, "owner", "place")
    answers: list[Any] = []

    async def ask(message: str) -> None:
        answers.append((message, await call.ask("approval", {"message": message})))

    async with trio.open_nursery() as nursery:
        over = trio.CancelScope()

        async def expire() -> None:
            with over:
                await ask("a harmless question")

        nursery.start_soon(expire)
        await trio.testing.wait_all_tasks_blocked()
        state = host.detach(call, call.asked)
        over.cancel()
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(ask, "may it?")
        await trio.testing.wait_all_tasks_blocked()
        allow = {"approval": {"action": "accept", "content": {"decision": "allow"}}}
        resumed = replace(wanted, request_state=state, input_responses=allow)
        assert host.resume(resumed, "owner") is call
        await trio.testing.wait_all_tasks_blocked()
        assert answers == []
        assert [asked.params["message"] for asked in call.asked.values()] == ["may it?"]
        nursery.cancel_scope.cancel()
