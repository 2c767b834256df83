"""Servers that fail, and what of it reaches a call. Real processes throughout."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import psutil
import pytest
import trio
import trio.testing

import raw_exec
from raw_exec.mcp_client.server import MAX_IN_FLIGHT, Server
from tests.mcp_client.support import fixture_server, runtime_of

SHELL = {"profiles": {"spawning": {"processes": "allowed"}}}


def processes_of(word: str) -> list[int]:
    """Return the descendants of this process that have a word in their command line."""
    found = []
    for child in psutil.Process().children(recursive=True):
        try:
            if word in " ".join(child.cmdline()):
                found.append(child.pid)
        except psutil.NoSuchProcess:
            continue
    return found


FAILING: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "exit": (fixture_server("exit"), ("exited with status 3", "no such module: \\u{202e}abc")),
    "mute": (fixture_server("mute", start_ms=1000), ("did not answer within 1000 ms",)),
    "repeating": (fixture_server("repeating-cursor"), ("repeats a cursor",)),
    "endless": (fixture_server("endless"), ("over 100 pages",)),
    "very-many": (fixture_server("very-many"), ("lists over 5000 tools",)),
    "very-long": (fixture_server("very-long"), ("or 16777216 bytes",)),
    "missing": ({"command": "no-such-program-4711"}, ("there is no program",)),
    "no-file": ({"command": "./not-there"}, ("does not exist",)),
    "echoes": ({"command": "cat", "start_ms": 2000}, ("refused", "protocol", "answer")),
    "true": ({"command": "true"}, ("exited with status 0",)),
}


async def test_a_server_that_fails_to_start_takes_only_its_own_tools_with_it(
    tmp_path: Path,
) -> None:
    """Its tools are withheld with the reason, and a call of one says it; others work."""
    servers = {name: server for name, (server, _) in FAILING.items()}
    tools = [*(f"mcp/{name}/echo" for name in FAILING), "mcp/s/echo"]
    async with runtime_of(tmp_path, tools, {**servers, "s": fixture_server()}) as runtime:
        assert runtime.registry.names == ("s__echo",)
        assert runtime.warnings == tuple(map(str, runtime.loaded.missing))
        assert len(runtime.warnings) == len(FAILING)
        for missing, (name, (_, words)) in zip(
            runtime.loaded.missing, FAILING.items(), strict=True
        ):
            assert any(word in missing.reason for word in words), missing.reason
            result = await runtime.registry.dispatch(f"{name}__echo", {"text": "x"})
            assert (result.code, result.stage) == ("mcp_unavailable", "exposure")
            assert missing.reason in result.text
        # Escaped, and bounded: a server's words are shown to people and models.
        told = await runtime.registry.dispatch("exit__echo", {"text": "x"})
        assert told.logs["stderr"] == "first line\nno such module: \\u{202e}abc\n"
        assert (await runtime.registry.dispatch("s__echo", {"text": "x"})).text == "x"
        assert runtime.statistics().live_trees == 1


async def test_one_bad_definition_is_withheld_and_the_rest_are_listed(tmp_path: Path) -> None:
    """Public report kimi-code#2328 and others; pointers are into the definition."""
    names = ["look_around", "remote_ref", "dialect", "not_object", "no_schema", "twice", "deep"]
    servers = {"s": fixture_server("bad-tools")}
    async with runtime_of(tmp_path, ["echo", *names, "a.b"], servers) as runtime:
        assert len(runtime.registry.names) == 2
        reasons = {one.identity.rpartition("/")[2]: one.reason for one in runtime.loaded.missing}
        assert list(reasons) == names
        assert "/inputSchema/properties/x/pattern" in reasons["look_around"]
        assert "/inputSchema/properties/x/$ref" in reasons["remote_ref"]
        assert "/inputSchema/$schema" in reasons["dialect"]
        assert "/inputSchema/type" in reasons["not_object"]
        assert "inputSchema" in reasons["no_schema"]
        assert "two tools of this name" in reasons["twice"]
        assert "deep" in reasons["deep"]


async def test_lines_that_are_no_messages_are_skipped_with_a_warning(tmp_path: Path) -> None:
    """Public report mcp-hangar#563: logs on standard output."""
    servers = {"s": fixture_server("greeting")}
    async with runtime_of(tmp_path, ["noise"], servers) as runtime:
        (warning,) = runtime.warnings
        assert "Fixture server is running" in warning
        assert (await runtime.registry.dispatch("s__noise", {})).text == "noisy"
        (warning,) = runtime.warnings
        assert "3 lines" in warning
        assert "\x07" not in warning


async def test_a_server_that_dies_in_a_call_is_started_again_by_the_next(tmp_path: Path) -> None:
    """What it remembered is lost, and the outcome of that call says so."""
    async with runtime_of(tmp_path, ["die", "half", "count"]) as runtime:
        call = runtime.registry.dispatch
        expected = (("s__die", "status 7", "about to die"), ("s__half", "status 0", ""))
        for name, words, said in expected:
            assert (await call("s__count", {})).text == "1"
            died = await call(name, {})
            assert (died.code, died.stage) == ("mcp_unavailable", "handler")
            assert words in died.text
            assert said in died.logs.get("stderr", "")
            again = await call("s__count", {})
            assert again.usage["worker"] == "cold"
            assert "is lost" in again.detail["server_restarted"]
            assert words in again.detail["server_ended"]
            assert again.text == "1"
            # Back to what the loop expects: a server that nothing was asked of.
            await call("s__die", {})


async def test_a_server_that_keeps_dying_is_left_alone_for_a_while(tmp_path: Path) -> None:
    """As for workers: after three failures in a row a call says how long, and starts nothing."""
    async with runtime_of(tmp_path, ["die", "count"]) as runtime:
        call = runtime.registry.dispatch
        for _ in range(3):
            assert "status 7" in (await call("s__die", {})).text
        refused = await call("s__count", {})
        assert refused.code == "mcp_unavailable"
        assert refused.detail["crash_loop"] == 3
        assert refused.detail["retry_after_ms"] > 0
        assert runtime.statistics().live_trees == 0


async def test_a_killed_server_is_noticed_between_calls(tmp_path: Path) -> None:
    """Somebody ends it from outside; the next call gets a new one."""
    async with runtime_of(tmp_path, ["count"]) as runtime:
        assert (await runtime.registry.dispatch("s__count", {})).text == "1"
        for pid in processes_of("fixture_server.py"):
            os.kill(pid, 9)
        while processes_of("fixture_server.py"):
            await trio.sleep(0.01)
        again = await runtime.registry.dispatch("s__count", {})
        while again.is_error:  # the notice may be on its way
            again = await runtime.registry.dispatch("s__count", {})
        assert again.text == "1"


@pytest.mark.parametrize("simulate", [(), ("no-userns", "no-cgroup")], ids=["best", "baseline"])
async def test_what_a_server_leaves_running_dies_with_it(
    tmp_path: Path, simulate: tuple[str, ...]
) -> None:
    """Public report airis-mcp-gateway#232: a grandchild in a session of its own."""
    servers = {"s": fixture_server(sandbox="spawning")}
    async with runtime_of(
        tmp_path, ["orphan"], servers, sandbox=SHELL, simulate=simulate
    ) as runtime:
        assert not (await runtime.registry.dispatch("s__orphan", {})).is_error
        assert processes_of("time.sleep(60)")
    assert processes_of("time.sleep(60)") == []


async def test_without_processes_there_is_no_grandchild(tmp_path: Path) -> None:
    """The other half of the pair: the default profile starts no programs."""
    async with runtime_of(tmp_path, ["orphan", "echo"]) as runtime:
        assert "PermissionError" in (await runtime.registry.dispatch("s__orphan", {})).text
        assert processes_of("time.sleep(60)") == []


async def test_so_many_calls_are_with_a_server_and_the_others_wait_for_room(
    tmp_path: Path,
) -> None:
    """A server is not given more than it can be asked to answer; nothing is refused for it."""
    told: list[str] = []
    tools = ["slow", "hang", "echo"]
    async with runtime_of(tmp_path, tools) as runtime, trio.open_nursery() as nursery:
        scopes = [trio.CancelScope() for _ in range(MAX_IN_FLIGHT)]

        async def hold(name: str, scope: trio.CancelScope) -> None:
            with scope:
                await runtime.registry.dispatch(name, {})

        async def echo() -> None:
            told.append((await runtime.registry.dispatch("s__echo", {"text": "x"})).text)

        for scope in scopes[1:]:
            nursery.start_soon(hold, "s__hang", scope)
        nursery.start_soon(hold, "s__slow", scopes[0])
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(echo)
        await trio.testing.wait_all_tasks_blocked(0.1)
        assert told == []
        scopes[0].cancel()
        while not told:
            await trio.lowlevel.checkpoint()
        assert told == ["x"]
        for scope in scopes:
            scope.cancel()


async def test_an_endless_line_ends_the_server_before_it_is_kept(tmp_path: Path) -> None:
    """64 MB in one line: the limit is looked at while it is read."""
    limits = {"result_bytes": 4 * 1024 * 1024}
    async with runtime_of(tmp_path, ["flood", "echo"], limits=limits) as runtime:
        before = psutil.Process().memory_info().rss
        result = await runtime.registry.dispatch("s__flood", {})
        assert psutil.Process().memory_info().rss - before < 48 * 1024 * 1024
        assert (result.code, result.detail["limit"]) == ("output_limit", "result_bytes")
        assert (await runtime.registry.dispatch("s__echo", {"text": "x"})).text == "x"


async def test_a_result_of_31_megabytes(tmp_path: Path) -> None:
    """Over the limit it is refused by it; under it, it is cut like any other."""
    size = 31 * 1024 * 1024
    async with runtime_of(tmp_path, ["big"]) as runtime:
        refused = await runtime.registry.dispatch("s__big", {"bytes": size})
        assert refused.code == "output_limit"
    async with runtime_of(tmp_path, ["big"], limits={"result_bytes": 2 * size}) as runtime:
        cut = await runtime.registry.dispatch("s__big", {"bytes": size})
        assert not cut.is_error
        assert len(cut.text) < 10_000
        assert cut.usage["truncated_bytes"] == size - 8192


async def test_a_result_of_very_many_blocks(tmp_path: Path) -> None:
    """Refused by their number, whatever the size; as many as any tool may return are fine."""
    async with runtime_of(tmp_path, ["blocks"]) as runtime:
        for count in (1025, 200_000):
            refused = await runtime.registry.dispatch("s__blocks", {"count": count})
            assert (refused.code, "1024 blocks" in refused.text) == ("invalid_result", True)
        fine = await runtime.registry.dispatch("s__blocks", {"count": 1000})
        assert not fine.is_error


async def test_progress_renews_the_idle_time_and_nothing_renews_the_whole(tmp_path: Path) -> None:
    """A token is always sent; silence ends a call, and so does taking too long."""
    servers = {
        "s": fixture_server(idle_ms=2000),
        "quick": fixture_server(idle_ms=200),
        "t": fixture_server(call_ms=400),
    }
    tools = ["mcp/s/work", "mcp/quick/hang", "mcp/t/work", "mcp/s/meddle"]
    async with runtime_of(tmp_path, tools, servers) as runtime:
        call = runtime.registry.dispatch
        outcomes: dict[str, raw_exec.ToolResult] = {}

        async def one(name: str, arguments: dict[str, Any]) -> None:
            outcomes[name] = await call(name, arguments)

        async with trio.open_nursery() as nursery:
            # 2.5 seconds in all: longer than the idle time, which each of five signs renews.
            nursery.start_soon(one, "s__work", {"pause": 0.5})
            nursery.start_soon(one, "quick__hang", {})
            nursery.start_soon(one, "t__work", {"pause": 0.3})
        assert outcomes["s__work"].text == "done with token True"
        hung = outcomes["quick__hang"]
        assert (hung.code, hung.detail["limit"]) == ("timeout", "idle_ms")
        assert hung.detail["stopped"]
        slow = outcomes["t__work"]
        assert (slow.code, slow.detail["limit"]) == ("timeout", "call_ms")
        # Progress after the result is nobody's.
        assert (await call("s__meddle", {})).text == "done"
        assert (await call("s__meddle", {})).text == "done"


@pytest.mark.parametrize(
    ("fault", "survives"), [((), True), (("ignores-cancel",), False)], ids=["obeys", "ignores"]
)
async def test_an_aborted_call_has_an_outcome_only_when_nothing_goes_on(
    tmp_path: Path, fault: tuple[str, ...], survives: bool
) -> None:
    """Public report openclaw#82424: cancelled, and the change lands all the same."""
    async with runtime_of(tmp_path, ["slow", "pid"], {"s": fixture_server(*fault)}) as runtime:
        before = (await runtime.registry.dispatch("s__pid", {})).text
        with trio.move_on_after(0.3) as scope:
            await runtime.registry.dispatch("s__slow", {})
        assert scope.cancelled_caught
        alive = bool(processes_of("fixture_server.py"))
        assert alive is survives
        after = await runtime.registry.dispatch("s__pid", {})
        assert ("server_restarted" in after.detail) is not survives
        if survives:
            assert after.text == before
        else:
            assert "withdrawn call of 'slow'" in after.detail["server_ended"]


async def test_a_server_that_reads_nothing_more_is_ended(tmp_path: Path) -> None:
    """The notice of the withdrawal can't even be written; the outcome is bounded all the same."""
    servers = {"s": fixture_server(idle_ms=300)}
    async with runtime_of(tmp_path, ["deaf", "echo"], servers) as runtime:
        assert (await runtime.registry.dispatch("s__deaf", {})).code == "timeout"
        big = {"text": "x" * 1_000_000}
        assert len((await runtime.registry.dispatch("s__echo", big)).text) > 8000


async def test_calls_that_die_with_another_s_server_say_why(tmp_path: Path) -> None:
    """One call is withdrawn in vain; the others did not get their answer either."""
    async with runtime_of(tmp_path, ["slow", "hang"], {"s": fixture_server()}) as runtime:
        results: list[raw_exec.ToolResult] = []

        async def other() -> None:
            results.append(await runtime.registry.dispatch("s__slow", {}))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)
            with trio.move_on_after(0.3):
                await runtime.registry.dispatch("s__hang", {})
        assert results[0].code == "mcp_unavailable"
        assert "withdrawn call of 'hang'" in results[0].text


async def test_a_changed_tool_is_refused_until_the_model_is_told(tmp_path: Path) -> None:
    """The snapshot is what the model was shown; a live schema that differs is another tool."""
    async with runtime_of(tmp_path, ["echo", "change", "count"]) as runtime:
        key = runtime.cache_key
        assert (await runtime.registry.dispatch("s__echo", {"text": "x"})).text == "x"
        assert (await runtime.registry.dispatch("s__change", {})).text == "changed"
        refused = await runtime.registry.dispatch("s__echo", {"text": "x"})
        assert refused.code == "mcp_unavailable"
        assert refused.detail["changed"]
        assert "changed the schema of 'echo'" in refused.text
        assert not (await runtime.registry.dispatch("s__count", {})).is_error
        assert runtime.cache_key == key


async def test_an_answer_that_races_with_the_abort_leaves_nothing(tmp_path: Path) -> None:
    """Abort racing completion; whatever wins, the next call is right."""
    async with runtime_of(tmp_path, ["echo"]) as runtime:
        for number in range(1000):
            with trio.move_on_after(0.0004 + (number % 50) * 0.00004):
                await runtime.registry.dispatch("s__echo", {"text": str(number)})
        last = await runtime.registry.dispatch("s__echo", {"text": "last"})
        assert last.text == "last"
        server: Server = runtime.servers._servers["s"]
        assert server._connection is not None
        assert server._connection.exchanges == []
        assert server._connection.session._dispatcher.tickets == {}


async def test_a_server_that_ignores_the_end_of_its_input_is_ended(tmp_path: Path) -> None:
    """Closing is polite first, and bounded."""
    async with runtime_of(tmp_path, ["echo"], {"s": fixture_server("ignores-eof")}) as runtime:
        assert runtime.statistics().live_trees == 1
    assert processes_of("fixture_server.py") == []


async def test_a_dead_launcher_takes_its_servers_along_and_the_next_call_recovers(
    tmp_path: Path,
) -> None:
    """Fault injection: the one process that everything hangs on."""
    async with runtime_of(tmp_path, ["count"]) as runtime:
        assert (await runtime.registry.dispatch("s__count", {})).text == "1"
        pid = runtime.statistics().launcher_pid
        assert pid is not None
        os.kill(pid, 9)
        while processes_of("fixture_server.py"):
            await trio.sleep(0.01)
        again = await runtime.registry.dispatch("s__count", {})
        while again.is_error:
            assert again.code == "mcp_unavailable"
            again = await runtime.registry.dispatch("s__count", {})
        assert again.text == "1"
