"""Approvals and questions over a call's events."""

from __future__ import annotations

from typing import Any

import pytest
import trio

import raw_exec
from toolbox import write_config, write_tool

from .client import SentEvent
from .conftest import ECHO, TEXT


def _config(root: Any) -> raw_exec.Config:
    write_tool(root, "echo", ECHO, language="python", schema=TEXT)
    rules = [{"match": "agent/echo", "effect": "ask"}]
    return raw_exec.load_config(write_config(root, ["echo"], rules=rules))


async def _until(events: Any, kind: str) -> SentEvent:
    async for event in events:
        if isinstance(event, SentEvent) and event.kind == kind:
            return event
    raise AssertionError(f"no {kind} came")


@pytest.mark.parametrize(("allow", "code"), [(True, None), (False, "approval_denied")])
async def test_a_client_approves_or_refuses_its_own_call(serve, tmp_path, allow, code) -> None:
    """Event ``approval``, then POST …/approval, where the operator said so."""
    async with (
        serve(_config(tmp_path), approvals=True) as served,
        served.connect() as client,
        served.connect() as other,
    ):
        body = {"name": "echo", "arguments": {"text": "x"}, "stream": True, "call_id": "c"}
        await client.send("POST", "/v1/call", body)
        events = client.events()
        asked = (await _until(events, "approval")).data
        assert (asked["identity"], asked["arguments"]) == ("agent/echo", {"text": "x"})
        assert asked["rule"]["match"] == "agent/echo"
        wrong = {"approval_id": "approval_0", "allow": True}
        refused = await other.ask("POST", "/v1/calls/c/approval", wrong)
        assert refused.error[:2] == (404, "approval_unknown")
        loose = {"approval_id": asked["approval_id"], "allow": 1}
        malformed = await other.ask("POST", "/v1/calls/c/approval", loose)
        assert malformed.error == (400, "request_invalid", "/allow")
        reply = {"approval_id": asked["approval_id"], "allow": allow, "reason": "because"}
        assert (await other.ask("POST", "/v1/calls/c/approval", reply)).status == 200
        result = (await _until(events, "result")).data
        assert result["code"] == code
        if not allow:
            assert "because" in result["content"][0]["text"]
        twice = await other.ask("POST", "/v1/calls/c/approval", reply)
        assert twice.error[:2] == (404, "approval_unknown")


async def test_without_a_client_that_answers_approval_is_required(serve, tmp_path) -> None:
    """Security: neither a plain call nor a service without --approvals lets anybody approve."""
    async with serve(_config(tmp_path), approvals=True) as served, served.connect() as client:
        plain = await client.call("echo", {"text": "x"})
        assert plain.json["code"] == "approval_required"
    async with serve(_config(tmp_path)) as served, served.connect() as client:
        await client.send(
            "POST", "/v1/call", {"name": "echo", "arguments": {"text": "x"}, "stream": True}
        )
        result = (await _until(client.events(), "result")).data
        assert result["code"] == "approval_required"


async def test_an_approval_that_nobody_gives_is_denied_in_time(serve, tmp_path) -> None:
    """Our choice: a call does not wait for ever."""
    limits = {"ask_seconds": 0.05}
    config = _config(tmp_path)
    async with (
        serve(config, approvals=True, limits=limits) as served,
        served.connect() as client,
    ):
        answer = await client.call("echo", {"text": "x"}, interactive=True)
        assert answer.json["code"] == "approval_denied"
        assert "nobody answered within 0.05 s" in answer.json["content"][0]["text"]


async def test_a_question_is_answered_over_http(serve, write) -> None:
    """Event ``question``, then POST …/answers; wrong answers leave it pending."""
    async with (
        serve(write("ask")) as served,
        served.connect() as client,
        served.connect() as other,
    ):
        body = {"name": "ask", "arguments": {}, "async": True, "interactive": True}
        await other.ask("POST", "/v1/call", body | {"call_id": "q"})
        await client.send("GET", "/v1/calls/q/events")
        events = client.events()
        question = (await _until(events, "question")).data
        assert question["document"]["blocks"][0]["kind"] == "form"
        where = "/v1/calls/q/answers"
        reply = {"request_id": question["request_id"], "answers": {"who": 1}}
        wrong = await other.ask("POST", where, reply)
        assert wrong.error[:2] == (422, "answers_invalid")
        unknown = await other.ask("POST", where, {"request_id": "ask_0", "answers": {}})
        assert unknown.error[:2] == (404, "question_unknown")
        both = await other.ask("POST", where, reply | {"cancel": True})
        assert both.error[:2] == (400, "request_invalid")
        reply["answers"] = {"why": "so"}
        assert (await other.ask("POST", where, reply)).json["state"] == "answered"
        result = (await _until(events, "result")).data
        assert result["content"][0]["value"]["answers"] == {"why": "so"}


async def test_a_question_is_declined_or_unavailable(serve, write) -> None:
    """The paired claim: without a client that answers, the tool is told so at once."""
    async with serve(write("ask")) as served, served.connect() as client:
        plain = await client.call("ask", {})
        assert (plain.status, plain.json["detail"]["unanswered"]) == (
            200,
            "interaction_unavailable",
        )
        await client.call("ask", {}, call_id="q", interactive=True, **{"async": True})
        async with served.connect() as reader:
            await reader.send("GET", "/v1/calls/q/events")
            with trio.fail_after(20):
                question = (await _until(reader.events(), "question")).data
        reply = {"request_id": question["request_id"], "cancel": True}
        assert (await client.ask("POST", "/v1/calls/q/answers", reply)).json["state"] == "cancelled"
        while (found := (await client.ask("GET", "/v1/calls/q")).json)["state"] != "done":
            await trio.sleep(0.005)
        assert found["result"]["detail"]["unanswered"] == "interaction_cancelled"
