"""Calls over HTTP: outcomes, refusals, and calls that a client comes back for."""

from __future__ import annotations

import json

import pytest
import trio

import raw_exec
from toolbox import write_config, write_tool

from .conftest import ECHO, TEXT, started


async def test_a_call_answers_with_its_outcome(serve, write) -> None:
    """POST /v1/call gives the whole result, as ``raw tools call --json`` prints it."""
    async with serve(write("echo")) as served, served.connect() as client:
        answer = await client.call("echo", {"text": "grüße\ud83d\ude00"}, call_id="mine-1")
        assert answer.status == 200
        result = answer.json
        assert result["content"] == [{"type": "text", "text": "grüße😀"}]
        assert (result["is_error"], result["code"], result["origin"]) == (False, None, "tool")
        assert result["tool_call_id"] == "mine-1"
        assert result["enforced"]["tier"] != "none"
        assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("name", "arguments", "code", "stage"),
    [
        ("nobody", {}, "unknown_tool", "exposure"),
        ("echo", {"txt": "x"}, "invalid_arguments", "schema"),
        ("echo", [], "invalid_arguments", "schema"),
        ("gone", {}, "tool_denied", "exposure"),
        ("asked", {"text": "x"}, "approval_required", "approval"),
    ],
)
async def test_a_refusal_of_the_runtime_is_an_outcome(
    serve, write, tmp_path, name, arguments, code, stage
) -> None:
    """Status 200 for every outcome that the runtime gives."""
    write_tool(tmp_path, "gone", ECHO, language="python")
    write_tool(tmp_path, "asked", ECHO, language="python")
    rules = [{"match": "agent/gone", "effect": "deny"}, {"match": "agent/asked", "effect": "ask"}]
    write("echo")
    config = raw_exec.load_config(write_config(tmp_path, ["echo", "gone", "asked"], rules=rules))
    async with serve(config) as served, served.connect() as client:
        answer = await client.call(name, arguments)
        assert (answer.status, answer.json["code"], answer.json["stage"]) == (200, code, stage)
        assert answer.json["is_error"] is True


BAD = [
    (b"{", "request_invalid", ""),
    (b'{"name": "echo", "arguments": {"text": "x"}', "request_invalid", ""),
    (b'{"name": "echo", "name": "echo", "arguments": {}}', "request_invalid", "/name"),
    (b'{"name": "echo", "arguments": {"a": NaN}}', "request_invalid", "/arguments/a"),
    (b'{"name": "echo", "arguments": ' + b"[" * 100 + b"]" * 100 + b"}", "request_invalid", None),
    (b"[]", "request_invalid", ""),
    (b'"\xff"', "request_invalid", ""),
    ({"arguments": {}}, "request_invalid", ""),
    ({"name": "echo"}, "request_invalid", ""),
    ({"name": 1, "arguments": {}}, "request_invalid", "/name"),
    ({"name": "", "arguments": {}}, "request_invalid", "/name"),
    ({"name": "echo", "arguments": {}, "argument": 1}, "request_invalid", "/argument"),
    ({"name": "echo", "arguments": {}, "call_id": "../x"}, "request_invalid", "/call_id"),
    (
        {"name": "echo", "arguments": {}, "timeout_seconds": 0},
        "request_invalid",
        "/timeout_seconds",
    ),
    ({"name": "echo", "arguments": {}, "timeout_seconds": True}, "request_invalid", None),
    ({"name": "echo", "arguments": {}, "max_output_bytes": 2**40}, "request_invalid", None),
    ({"name": "echo", "arguments": {}, "stream": 1}, "request_invalid", "/stream"),
    ({"name": "echo", "arguments": {}, "stream": True, "async": True}, "request_invalid", "/async"),
    ({"name": "echo", "arguments": {}, "cwd": "a\0b"}, "request_invalid", "/cwd"),
    ({f"f{i}": i for i in range(1000)}, "request_invalid", ""),
]


async def test_malformed_requests_are_refused_with_the_place_and_run_nothing(serve, write) -> None:
    """400 with a located error; unknown fields are refused; 4xx never runs anything."""
    async with serve(write("echo")) as served, served.connect() as client:
        for body, code, pointer in BAD:
            answer = await client.ask("POST", "/v1/call", body)
            status, found, where = answer.error
            assert (status, found) == (400, code), body
            assert pointer is None or where == pointer, (body, answer.json)
        plain = await client.ask("POST", "/v1/call", b"{}", {"Content-Type": "text/plain"})
        assert plain.error[:2] == (415, "media_type_unsupported")
        assert (await client.ask("POST", "/v1/call?x=1", {})).status == 400
        assert (await client.ask("GET", "/v1/nothing")).error[:2] == (404, "not_found")
        wrong = await client.ask("PUT", "/v1/calls/x")
        assert wrong.error[:2] == (405, "method_not_allowed")
        assert set(wrong.headers["allow"].split(", ")) == {"GET", "HEAD", "DELETE"}
        text = (await client.ask("GET", "/metrics")).raw.decode()
        assert "raw_workers 0.0" in text
        assert "raw_calls_total{" not in text
        refused = 'raw_requests_refused_total{code="%s"} %d.0'
        assert refused % ("request_invalid", len(BAD) + 1) in text
        assert refused % ("not_found", 1) in text
        assert refused % ("method_not_allowed", 1) in text
        assert (await client.call("echo", {"text": "x"})).json["is_error"] is False


async def test_options_reach_the_call(serve, write) -> None:
    """``max_output_bytes`` and ``timeout_seconds``."""
    async with serve(write("echo", "wait")) as served, served.connect() as client:
        capped = await client.call("echo", {"text": "x" * 5000}, max_output_bytes=1000)
        (block,) = capped.json["content"]
        assert block["text"].endswith("[truncated: 1000 of 5000 bytes shown]")
        late = await client.call("wait", {"name": "t"}, timeout_seconds=0.05)
        assert (late.status, late.json["code"]) == (200, "timeout")
        # More than the configured limit is that limit, however much it is.
        assert (await client.call("echo", {"text": "x"}, timeout_seconds=1e308)).status == 200


async def test_calls_work_inside_the_directories_of_their_key_only(serve, write, tmp_path) -> None:
    """Security: the sandbox may write to the working directory, so a client can't name any."""
    other, outside = tmp_path / "other", tmp_path / "outside"
    other.mkdir()
    outside.mkdir()
    async with serve(write("who"), extra_roots=(str(other),)) as served:
        inner = served.cwd / "a"
        inner.mkdir()
        (served.cwd / "link").symlink_to(outside)
        (tmp_path / "cwd-secret").mkdir()
        async with served.connect() as client:
            for cwd in (
                "/",
                "..",
                str(outside),
                "link",
                "a/../../outside",
                str(served.cwd) + "-secret",
                "missing",
            ):
                answer = await client.call("who", {}, cwd=cwd)
                assert answer.error == (403, "cwd_not_allowed", "/cwd"), cwd
            for cwd, found in (
                ("a", inner),
                (str(inner), inner),
                (".", served.cwd),
                (str(other), other),
            ):
                answer = await client.call("who", {}, cwd=cwd)
                assert answer.json["content"][0]["text"].split()[2] == str(found), answer.json


async def test_an_async_call_is_asked_for_later(serve, write) -> None:
    """202 with a place to look; the result is there until it is forgotten."""
    async with serve(write("gate")) as served, served.connect() as client:
        answer = await client.call("gate", {}, **{"async": True})
        assert answer.status == 202
        place = answer.headers["location"]
        assert place == f"/v1/calls/{answer.json['call_id']}"
        while (await client.ask("GET", place)).json["state"] == "queued":
            pass
        (served.cwd / "gate").touch()
        while (found := (await client.ask("GET", place)).json)["state"] != "done":
            assert found["state"] == "running"
        assert found["result"]["content"] == [{"type": "text", "text": "through"}]
        assert (await client.ask("HEAD", "/healthz")).status == 200


async def test_an_abort_answers_when_nothing_runs_any_more(serve, write) -> None:
    """DELETE; the tree is dead by then, and the outcome says what happened."""
    async with serve(write("wait")) as served, served.connect() as client:
        await client.call("wait", {"name": "a"}, call_id="c1", **{"async": True})
        pid = await started(served.cwd, "a")
        assert pid
        answer = await client.ask("DELETE", "/v1/calls/c1")
        result = answer.json["result"]
        assert (answer.status, result["code"], result["stage"]) == (200, "aborted", "handler")
        assert result["detail"] == {"reason": "deleted"}
        assert "raw_process_trees 0.0" in (await client.ask("GET", "/metrics")).raw.decode()
        again = await client.ask("DELETE", "/v1/calls/c1")
        assert (again.status, again.json) == (200, answer.json)
        assert (await client.ask("GET", "/v1/calls/c1")).json == answer.json
        assert (await client.ask("DELETE", "/v1/calls/c2")).error[:2] == (404, "call_unknown")


async def test_a_name_is_used_once(serve, write) -> None:
    """The same call_id in flight, finished, or forgotten is a conflict."""
    async with (
        serve(write("echo", "wait"), limits={"kept_calls": 2}) as served,
        served.connect() as client,
    ):
        await client.call("wait", {"name": "a"}, call_id="long", **{"async": True})
        busy = await client.call("echo", {"text": "x"}, call_id="long")
        assert busy.error == (409, "call_exists", "/call_id")
        assert busy.headers["location"] == "/v1/calls/long"
        for name in ("one", "two", "three"):
            assert (await client.call("echo", {"text": name}, call_id=name)).status == 200
        assert (await client.ask("GET", "/v1/calls/one")).error[:2] == (404, "call_unknown")
        assert (await client.ask("GET", "/v1/calls/three")).json["state"] == "done"
        for name in ("one", "three"):
            assert (await client.call("echo", {"text": "x"}, call_id=name)).status == 409
        assert (await client.ask("DELETE", "/v1/calls/long")).json["state"] == "done"


async def test_outcomes_are_kept_up_to_a_number_of_bytes(serve, write) -> None:
    """Finished calls are bounded by count and by bytes; the newest is always there."""
    limits = {"kept_bytes": 15_000}
    async with serve(write("big"), limits=limits) as served, served.connect() as client:
        for number in range(4):
            await client.call("big", {"text": 8_000}, call_id=f"c{number}")
        states = [(await client.ask("GET", f"/v1/calls/c{number}")).status for number in range(4)]
        assert states == [404, 404, 404, 200]
        await client.call("big", {"text": 90_000}, call_id="huge", max_output_bytes=100_000)
        assert (await client.ask("GET", "/v1/calls/huge")).status == 200


async def test_tools_are_listed_for_a_model_provider_too(serve, write, tmp_path) -> None:
    """What to send to a provider; what it can't be told of is named."""
    write_tool(tmp_path, "echo", ECHO, language="python", schema=TEXT)
    either = {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}
    write_tool(tmp_path, "either", ECHO, language="python", schema=either)
    config = raw_exec.load_config(write_config(tmp_path, ["echo", "either"]))
    async with serve(config) as served, served.connect() as client:
        plain = (await client.ask("GET", "/v1/tools")).json
        assert [tool["name"] for tool in plain["tools"]] == ["echo", "either"]
        told = (await client.ask("GET", "/v1/tools?profile=anthropic")).json
        assert [tool["name"] for tool in told["tools"]] == ["echo"]
        assert told["tools"][0]["input_schema"] == TEXT
        (withheld,) = told["withheld"]
        assert withheld["identity"] == "agent/either"
        assert withheld["problems"][0]["pointer"]
        unknown = await client.ask("GET", "/v1/tools?profile=nobody")
        assert unknown.error[:2] == (400, "profile_unknown")
        assert json.loads(json.dumps(plain))["cache_key"] == told["cache_key"]


async def test_names_that_clients_and_tools_make_up_are_no_labels(serve, tmp_path) -> None:
    """Security: nobody fills the memory of the service, or of what reads its metrics."""
    odd = """
def handler(args, context):
    return {"content": [], "isError": True, "code": "odd_1"}
"""
    write_tool(tmp_path, "odd", odd, language="python")
    config = raw_exec.load_config(write_config(tmp_path, ["odd"]))
    async with serve(config) as served, served.connect() as client:
        assert (await client.call("made-up", {})).json["code"] == "unknown_tool"
        assert (await client.call("odd", {})).json["code"] == "odd_1"
        text = (await client.ask("GET", "/metrics")).raw.decode()
        assert 'raw_calls_total{code="unknown_tool",tool="unknown"} 1.0' in text
        assert 'raw_calls_total{code="tool_error",tool="agent/odd"} 1.0' in text
        assert "made-up" not in text
        assert "odd_1" not in text


async def test_two_calls_run_side_by_side(serve, write) -> None:
    """One client's long call does not hold up another's short one."""
    async with (
        serve(write("gate", "echo")) as served,
        served.connect() as one,
        served.connect() as two,
    ):
        await one.send("POST", "/v1/call", {"name": "gate", "arguments": {}})
        assert (await two.call("echo", {"text": "x"})).status == 200
        (served.cwd / "gate").touch()
        with trio.fail_after(20):
            assert (await one.read()).json["content"][0]["text"] == "through"
