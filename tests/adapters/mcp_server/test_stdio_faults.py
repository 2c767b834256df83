"""Clients that vanish, never read, send too much or nonsense, or change their mind."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
import trio
import trio.testing

from raw_exec.adapters.mcp_server import Host
from raw_exec.adapters.mcp_server import host as host_module
from raw_exec.adapters.mcp_server import stdio as stdio_module
from raw_exec.adapters.mcp_server.host import MAX_RUNNING
from toolbox import footprint, write_tool

from .support import (
    Wire,
    open_server,
    open_wire,
    stateless,
    wait_dead,
    wait_file,
    write_tools,
)

BIG = """
def handler(args, context):
    return {"content": [{"type": "text", "text": "x" * args["bytes"]}]}
"""
RECURSIVE = {
    "type": "object",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
            "additionalProperties": False,
        }
    },
    "properties": {"root": {"$ref": "#/$defs/node"}},
    "required": ["root"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"this is a log line", -32700),
        (b'{"jsonrpc":"2.0","id":1,', -32700),
        (b'{"jsonrpc":"2.0","method":"\xff\xfe"}', -32700),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
        (b"x" * 64_000_000, -32600),
    ],
    ids=["text", "half", "latin-1", "batch", "64 MB"],
)
async def test_a_line_that_is_no_message_harms_nothing(wire: Wire, line: bytes, code: int) -> None:
    """An error without an ID, and the connection goes on."""
    await wire.initialize()
    await wire.send_bytes(line + b"\n")
    told = await wire.receive()
    assert (told["id"], told["error"]["code"]) == (None, code)
    assert (await wire.ask("ping"))["result"] == {}


async def test_the_input_may_end_in_the_middle_of_a_line(host: Host) -> None:
    """Half a JSON line is dropped, and the server ends like at any other end."""
    async with open_wire(host) as wire:
        await wire.initialize()
        await wire.send_bytes(b'{"jsonrpc":"2.0","id":9,"method":"pi')
        await wire.close_input()
        with pytest.raises(EOFError):
            await wire.receive()


async def test_what_came_before_the_end_is_answered(host: Host) -> None:
    """So that a script may pipe a few requests in."""
    async with open_wire(host) as wire:
        await wire.send({"id": 1, "method": "ping"})
        await wire.send({"id": 2, "method": "nothing"})
        await wire.close_input()
        assert (await wire.receive())["id"] == 1
        assert (await wire.receive())["id"] == 2
        with pytest.raises(EOFError):
            await wire.receive()


@pytest.mark.parametrize("which", ["input", "output"])
async def test_a_client_that_vanishes_takes_its_calls_with_it(
    host: Host, tmp_path: Path, which: str
) -> None:
    """Either end is enough, and nothing of the calls is left."""
    async with open_wire(host) as wire:
        await wire.initialize()
        for _ in range(2):
            await wire.request("tools/call", name="hang", arguments={})
        await wait_file(tmp_path / "cwd" / "running", 2)
        if which == "input":
            await wire.close_input()
            with pytest.raises(EOFError):
                await wire.receive()
        else:
            await wire.close_output()
        await wait_dead(host)


async def test_a_client_that_does_not_read_is_not_read_either(wire: Wire) -> None:
    """What waits for it is bounded; once it reads, nothing is missing."""
    await wire.initialize()
    count = 20_000
    sent = 0

    async def flood() -> None:
        nonlocal sent
        for number in range(count):
            await wire.send({"id": f"p{number}", "method": "ping"})
            sent += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(flood)
        await trio.testing.wait_all_tasks_blocked(0.2)
        assert sent < count // 2
        for number in range(count):
            assert (await wire.receive())["id"] == f"p{number}"
    assert sent == count


async def test_a_thousand_calls_at_once_are_bounded_and_none_is_lost(
    wire: Wire, host: Host
) -> None:
    """Every one has its own answer."""
    await wire.initialize()
    most = 0
    async with trio.open_nursery() as nursery:

        async def flood() -> None:
            for number in range(1000):
                params = {"name": "echo", "arguments": {"text": f"{number}"}}
                await wire.send({"id": f"c{number}", "method": "tools/call", "params": params})

        nursery.start_soon(flood)
        answers = {}
        for _ in range(1000):
            message = await wire.receive()
            most = max(most, host.calls)
            answers[message["id"]] = message["result"]["content"][0]["text"]
    assert answers == {f"c{number}": f"{number}" for number in range(1000)}
    assert 1 < most <= MAX_RUNNING


async def test_an_id_in_use_is_refused(wire: Wire, tmp_path: Path) -> None:
    """JSON-RPC: two answers of one ID could not be told apart."""
    await wire.initialize()
    call = {"id": "same", "method": "tools/call", "params": {"name": "hang"}}
    await wire.send(call)
    await wait_file(tmp_path / "cwd" / "running")
    await wire.send(call)
    assert (await wire.receive())["error"]["code"] == -32600


@pytest.mark.slow
async def test_an_abort_races_with_the_end_of_its_call(wire: Wire, host: Host) -> None:
    """An answer or none, never two, never half of one, and nothing left running."""
    await wire.initialize()
    answered = 0
    for number in range(240):
        call = await wire.request("tools/call", name="echo", arguments={"text": "x" * 3000})
        for _ in range(number % 24):
            await trio.lowlevel.checkpoint()
        await wire.send({"method": "notifications/cancelled", "params": {"requestId": call}})
        ping = await wire.request("ping")
        seen: list[int] = []
        while not seen or seen[-1] != ping:
            seen.append((await wire.receive())["id"])
        assert seen in ([ping], [call, ping])
        answered += len(seen) - 1
    # Whatever was still on its way when its ping was answered comes first now.
    last = await wire.request("tools/call", name="echo", arguments={"text": "last"})
    assert (await wire.receive())["id"] == last
    while host.calls:  # those given up last are still being ended
        await trio.sleep(0.01)
    assert answered < 240


@pytest.mark.parametrize(
    ("module", "name", "method"),
    [
        (stdio_module, "MAX_HELD_BYTES", "tools/call"),
        (host_module, "MAX_CALLS", "tools/call"),
        (stdio_module, "MAX_STREAMS", "subscriptions/listen"),
    ],
)
async def test_one_too_many_is_refused_at_once(
    wire: Wire, monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, method: str
) -> None:
    """The client may try later, and the connection goes on."""
    params = {"name": "echo", "arguments": {"text": "x"}, "notifications": {}}
    with monkeypatch.context() as patched:
        patched.setattr(module, name, 0)
        refused = await wire.ask(method, _meta=stateless(), **params)
        assert refused["error"]["code"] == -32000
    request_id = await wire.request(method, _meta=stateless(), **params)
    taken = await wire.receive()
    assert taken.get("id") == request_id or taken["method"].endswith("acknowledged")


async def test_questions_are_bounded_by_number_and_by_time(
    wire: Wire, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each keeps a call; nobody is waited for without an end."""
    ask = {"_meta": stateless(elicitation={}), "name": "ask", "arguments": {}}
    with monkeypatch.context() as patched:
        patched.setattr(host_module, "MAX_OPEN_QUESTIONS", 0)
        refused = (await wire.ask("tools/call", **ask))["result"]
        assert refused["_meta"]["raw/code"] == "interaction_unavailable"
    with monkeypatch.context() as patched:
        patched.setattr(host_module, "DETACHED_SECONDS", 0.0)
        asked = (await wire.ask("tools/call", **ask))["result"]
        assert asked["resultType"] == "input_required"
        await wait_dead(host)
    late = await wire.ask("tools/call", **ask, requestState=asked["requestState"])
    assert late["error"]["code"] == -32602


# ---------------------------------------------------------------- tools that are hard to serve


async def test_a_result_beyond_its_limits_is_cut_or_refused(tmp_path: Path, cache: Path) -> None:
    """31 MB are over result_bytes; 20 MB are cut to the budget, with a mark."""
    write_tool(tmp_path, "big", BIG, language="python")
    write_tools(tmp_path, "big")
    before = footprint()
    async with open_server(tmp_path, cache) as host, open_wire(host) as wire:
        await wire.initialize()
        over = await wire.ask("tools/call", name="big", arguments={"bytes": 31_000_000})
        assert over["result"]["_meta"] == {"raw/code": "output_limit"}
        assert over["result"]["isError"] is True
        cut = await wire.ask("tools/call", name="big", arguments={"bytes": 20_000_000})
        text = cut["result"]["content"][0]["text"]
        assert text.endswith("\n… [truncated: 8192 of 20000000 bytes shown]")
    assert footprint() == before


async def test_a_big_result_reaches_a_client_that_reads_it(tmp_path: Path, cache: Path) -> None:
    """The other half: a budget of 16 MB is a budget of 16 MB, through a pipe of 64 KiB."""
    write_tool(tmp_path, "big", BIG, language="python")
    write_tools(tmp_path, "big", agent={"max_output_bytes": 16_000_000})
    async with open_server(tmp_path, cache) as host, open_wire(host) as wire:
        await wire.initialize()
        whole = await wire.ask("tools/call", name="big", arguments={"bytes": 12_000_000})
        assert len(whole["result"]["content"][0]["text"]) == 12_000_000


async def test_a_schema_that_refers_to_itself_is_listed_and_checked(
    tmp_path: Path, cache: Path
) -> None:
    """Other providers refuse it; MCP takes references."""
    source = BIG.replace('"x" * args["bytes"]', '"tree"')
    write_tool(tmp_path, "tree", source, language="python", schema=RECURSIVE)
    write_tools(tmp_path, "tree")
    async with open_server(tmp_path, cache) as host, open_wire(host) as wire:
        await wire.initialize()
        listed = (await wire.ask("tools/list"))["result"]["tools"]
        (schema,) = (tool["inputSchema"] for tool in listed if tool["name"] == "tree")
        items = schema["$defs"]["node"]["properties"]["children"]["items"]
        assert items == {"$ref": "#/$defs/node"}
        right = {"root": {"children": [{"children": []}]}}
        answer = await wire.ask("tools/call", name="tree", arguments=right)
        assert answer["result"]["content"] == [{"type": "text", "text": "tree"}]
        wrong = {"root": {"children": [{"children": [{"x": 1}]}]}}
        refused = await wire.ask("tools/call", name="tree", arguments=wrong)
        assert refused["result"]["_meta"] == {"raw/code": "invalid_arguments"}
