"""Tools of an MCP server, called through every step, in the sandbox."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
import trio

import raw_exec
from raw_exec.panels import PanelView
from tests.mcp_client.support import fixture_server, mcp_config, runtime_of


async def test_what_a_server_returns_becomes_a_result(tmp_path: Path) -> None:
    """Text, JSON, images; other kinds are left out by name."""
    tools = ["echo", "add", "kinds", "fail", "failed_sum", "bad_image", "big"]
    async with runtime_of(tmp_path, tools) as runtime:
        assert runtime.registry.names == tuple(f"s__{name}" for name in tools)
        call = runtime.registry.dispatch
        echoed = await call("s__echo", {"text": "grüße"})
        assert (echoed.text, echoed.is_error, echoed.origin) == ("grüße", False, "tool")
        assert echoed.enforced["network"] == "none"
        assert echoed.usage["worker"] == "warm"

        added = await call("s__add", {"a": 1, "b": 2})
        assert added.content == ({"type": "json", "value": {"sum": 3}},)

        kinds = await call("s__kinds", {})
        assert [block["type"] for block in kinds.content] == [
            *("text", "image", "text", "text", "text", "text", "json")
        ]
        left_out = [block["text"] for block in kinds.content[2:6]]
        for words, text in zip(
            ("image/webp", "audio/wav", "resource file:///x", "resource file:///y"),
            left_out,
            strict=True,
        ):
            assert words in text
            assert "left out" in text

        failed = await call("s__fail", {})
        assert (failed.is_error, failed.code, failed.text) == (True, None, "it did not work")
        # Public report cyanheads/mcp-ts-core#241: structured content with an error.
        strange = await call("s__failed_sum", {})
        assert (strange.is_error, strange.origin) == (True, "tool")
        assert strange.content[1] == {"type": "json", "value": {"error": "E1"}}

        # The official demonstration server has a picture whose checksum is wrong.
        broken = await call("s__bad_image", {})
        assert not broken.is_error
        assert (
            broken.text
            == "[left out: image of type image/png that is not a image/png: signature missing]"
        )

        cut = await call("s__big", {"bytes": 100_000})
        assert "truncated" in cut.text
        assert cut.usage["truncated_bytes"] > 90_000


async def test_a_result_that_breaks_a_promise_is_refused(tmp_path: Path) -> None:
    """The SDK would raise a bare RuntimeError; ours is an outcome with a place."""
    expected = {
        "wrong_sum": "/structuredContent/sum",
        "no_sum": "outputSchema",
        "nan": "structuredContent",
    }
    async with runtime_of(tmp_path, list(expected)) as runtime:
        for name, words in expected.items():
            result = await runtime.registry.dispatch(f"s__{name}", {})
            assert (result.code, result.is_error) == ("invalid_result", True)
            assert words in result.text


async def test_an_error_of_the_protocol_is_not_the_end_of_the_connection(tmp_path: Path) -> None:
    """The server's own words, under the very code and text that the SDK uses for its end."""
    async with runtime_of(tmp_path, ["rpc_error", "pid"]) as runtime:
        before = await runtime.registry.dispatch("s__pid", {})
        result = await runtime.registry.dispatch("s__rpc_error", {})
        assert (result.code, result.detail["error"]) == ("handler_error", "-32000")
        after = await runtime.registry.dispatch("s__pid", {})
        assert before.text == after.text


async def test_rules_approval_schema_and_hooks_apply(tmp_path: Path) -> None:
    """A call goes through every step, as any other tool's."""
    asked: list[Any] = []

    def approve(request: Any) -> bool:
        asked.append((request.identity, dict(request.arguments)))
        return request.arguments["text"] != "no"

    when = {"source": "arguments", "any": "text", "regex": "^(no|yes)$"}
    rules = [
        {"match": "mcp/s/echo", "effect": "ask", "when": when},
        {"match": "mcp/s/count", "effect": "deny"},
    ]
    async with runtime_of(tmp_path, ["echo", "count"], rules=rules, approve=approve) as runtime:
        call = runtime.registry.dispatch
        assert runtime.registry.names == ("s__echo",)
        assert (await call("s__count", {})).code == "tool_denied"
        assert (await call("s__echo", {"text": 5})).code == "invalid_arguments"
        assert (await call("s__echo", {"text": "free"})).text == "free"
        assert (await call("s__echo", {"text": "no"})).code == "approval_denied"
        assert (await call("s__echo", {"text": "yes"})).text == "yes"
    assert asked == [("mcp/s/echo", {"text": "no"}), ("mcp/s/echo", {"text": "yes"})]


async def test_a_rule_that_does_not_fit_withholds_that_tool_only(tmp_path: Path) -> None:
    """A condition that can't be looked at must not silently never match."""
    rules = [
        {
            "match": "mcp/s/a?b",
            "effect": "ask",
            "when": {"source": "effects", "any": "files[*].path", "regex": "x"},
        }
    ]
    async with runtime_of(tmp_path, ["echo", "a.b"], rules=rules) as runtime:
        assert runtime.registry.names == ("s__echo",)
        (missing,) = runtime.loaded.missing
        assert missing.identity == "mcp/s/a.b"
        assert "/agents/a/tools/rules/0" in missing.reason
        assert str(missing) in runtime.warnings
        result = await runtime.registry.dispatch("mcp/s/a.b", {})
        assert (result.code, result.stage) == ("mcp_unavailable", "exposure")
        assert (await runtime.registry.dispatch("s__echo", {"text": "x"})).text == "x"


async def test_a_review_that_can_not_happen_withholds_the_tool(tmp_path: Path) -> None:
    """Its server's profile counts: that of other tools has a view, which no server is on."""
    sandbox = {
        "default": "seen",
        "profiles": {"seen": {"write": ["$CWD"], "effects": "observed"}},
    }
    rules = [{"match": "mcp/s/echo", "effect": "ask", "review": True}]
    async with runtime_of(tmp_path, ["echo", "count"], rules=rules, sandbox=sandbox) as runtime:
        assert runtime.registry.names == ("s__count",)
        (missing,) = runtime.loaded.missing
        assert "profile 'mcp-server'" in missing.reason
        assert "'review' does not fit" in (missing.hint or "")
        assert (await runtime.registry.dispatch("s__count", {})).text == "1"


async def test_names_are_valid_stable_and_never_meet(tmp_path: Path) -> None:
    """``a.b`` and ``a_b``, and one name on two servers; reported: codex #8174."""
    servers = {"s": fixture_server(), "s__a": fixture_server(), "t": fixture_server("other-echo")}
    tools = [
        "mcp/t/echo",
        "mcp/s/a.b",
        "mcp/s/a_b",
        "mcp/s__a/a_b",
        {"ref": "mcp/s/echo", "as": "say"},
    ]
    async with runtime_of(tmp_path, tools, servers) as runtime:
        names = runtime.registry.names
        assert (names[0], names[2], names[4]) == ("t__echo", "s__a_b", "say")
        assert names[1].startswith("s__a_b_")
        assert names[3].startswith("s__a__a_b_")
        assert len(set(names)) == 5
        texts = [(await runtime.registry.dispatch(name, {"text": "x"})).text for name in names[1:4]]
        assert texts == ["a.b", "a_b", "a_b"]
    async with runtime_of(tmp_path, ["mcp/s__a/a_b", "mcp/s/a.b"], servers) as runtime:
        assert runtime.registry.names == (names[3], names[1])


class Screen:
    """Answers questions of a server by what a field is called."""

    def __init__(self, answers: list[dict[str, Any] | None]) -> None:
        self.answers = answers
        self.documents: list[Any] = []

    def can_ask(self, session: str) -> bool:
        return True

    async def ask(self, question: Any, reply: Any) -> None:
        self.documents.append(question.document)
        answers = self.answers.pop(0)
        if answers is None:
            await reply.cancel()
        else:
            await reply.answer(answers)


async def test_a_server_s_question_is_put_to_the_person_of_the_session(tmp_path: Path) -> None:
    """Elicitation; numbers are read, choices mapped back, nonsense asked again."""
    good = {"f0": "Ada", "f1": "36", "f2": "o0", "f3": "o1", "f4": ["o0", "o1"]}
    screen = Screen([{**good, "f1": "twelve"}, {**good, "f1": "12"}, good, None])
    async with runtime_of(tmp_path, ["ask"], interact=screen) as runtime:
        async with runtime.open_session() as session:
            result = await session.dispatch("s__ask", {})
            assert json.loads(result.text) == {
                "action": "accept",
                "content": {
                    "name": "Ada",
                    "age": 36,
                    "sure": True,
                    "colour": "blue",
                    "many": ["p", "q"],
                },
            }
            declined = await session.dispatch("s__ask", {})
            assert json.loads(declined.text) == {"action": "decline"}
        outside = await runtime.registry.dispatch("s__ask", {})
        assert json.loads(outside.text) == {"action": "decline"}
        assert outside.detail["unanswered"] == "interaction_unavailable"
    texts = [document["blocks"][0]["text"] for document in screen.documents]
    assert "must be a whole number" in texts[1]
    assert "did not fit" in texts[2]
    assert texts[3] == "Who are you?"


async def test_what_is_not_offered_is_refused_by_the_protocol(tmp_path: Path) -> None:
    """Sampling and roots are not ours, nor is elicitation where nobody can be asked."""
    async with runtime_of(tmp_path, ["sample", "roots", "ask"]) as runtime:
        for name in ("sample", "roots", "ask"):
            refused = json.loads((await runtime.registry.dispatch(f"s__{name}", {})).text)
            assert "not supported" in refused["message"].lower()


async def test_panels_come_with_results_and_with_nothing_else(tmp_path: Path) -> None:
    """``_meta["raw/panel"]``, declared by its first update; progress moves nothing."""
    shown: list[PanelView] = []

    async def on_panel(view: PanelView) -> None:
        shown.append(view)

    async with runtime_of(tmp_path, ["panel", "meddle"]) as runtime:
        async with runtime.open_session(on_panel=on_panel) as session:
            meddled = await session.dispatch("s__meddle", {})
            assert (meddled.text, session.panels()) == ("done", ())
            result = await session.dispatch("s__panel", {})
            assert result.text == "shown"
            (view,) = session.panels()
            assert view.id == "mcp/s/panel#main"
            assert view.latest.document["title"] == "T"
        alone = await runtime.registry.dispatch("s__panel", {})
        assert "panel_closed_context" in alone.text
    assert [view.id for view in shown] == ["mcp/s/panel#main"] * len(shown)


async def test_a_secret_reaches_the_server_and_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Variables and literals: not in results, failures, logs, warnings or representations."""
    monkeypatch.setenv("API_TOKEN", "tok-4711-secret")
    monkeypatch.setenv("LEAK", "inherited")
    source = {"kind": "env", "name": "API_TOKEN"}
    variables = {"token": {"description": "d", "access": "use", "source": source}}
    env = {"TOKEN": {"var": "token"}, "KEY": "literal-secret", "MODE": "plain"}
    servers = {"s": fixture_server(env=env), "t": fixture_server("print-env", env=env)}
    async with runtime_of(
        tmp_path, ["env", "die", "mcp/t/echo"], servers, vars=variables
    ) as runtime:
        told = json.loads((await runtime.registry.dispatch("s__env", {})).text)
        assert (told["TOKEN"], told["MODE"]) == ("[redacted TOKEN]", "plain")
        assert told["KEY"] == "[redacted KEY]"
        assert "LEAK" not in told
        died = await runtime.registry.dispatch("s__die", {})
        assert "[redacted TOKEN]" in died.text
        missing = await runtime.registry.dispatch("t__echo", {"text": "x"})
        everything = [
            *(json.dumps(one.as_dict()) for one in (died, missing)),
            *(str(runtime.warnings), repr(runtime.config), caplog.text),
        ]
    for text in everything:
        assert "tok-4711-secret" not in text
        assert "literal-secret" not in text


async def test_a_secret_in_a_definition_does_not_reach_the_model(tmp_path: Path) -> None:
    """Attack: a description is what a model reads first."""
    env = {"TOKEN": "literal-secret"}
    servers = {"s": fixture_server("tells-env", env=env)}
    async with runtime_of(tmp_path, ["echo"], servers) as runtime:
        (definition,) = runtime.registry.definitions()
        assert definition["description"] == "uses [redacted TOKEN]"
        assert (await runtime.registry.dispatch("s__echo", {"text": "x"})).text == "x"


async def test_why_a_question_was_not_put_says_nothing_that_was_kept(tmp_path: Path) -> None:
    """The server names its fields; what it was given, and control characters, stay out."""
    servers = {"s": fixture_server("odd-field", env={"TOKEN": "literal-secret"})}
    async with (
        runtime_of(tmp_path, ["ask"], servers, interact=Screen([])) as runtime,
        runtime.open_session() as session,
    ):
        result = await session.dispatch("s__ask", {})
    assert json.loads(result.text) == {"action": "decline"}
    unanswered = result.detail["unanswered"]
    assert "[redacted TOKEN]" in unanswered
    assert unanswered.isprintable()


async def test_a_missing_variable_withholds_the_server_s_tools(tmp_path: Path) -> None:
    """The reason names the variable; nothing is started without it."""
    source = {"kind": "env", "name": "NOT_THERE_4711"}
    variables = {"token": {"description": "d", "access": "use", "source": source}}
    server = fixture_server(env={"TOKEN": {"var": "token"}})
    async with runtime_of(tmp_path, ["echo"], {"s": server}, vars=variables) as runtime:
        assert "'token'" in runtime.loaded.missing[0].reason
        assert runtime.statistics().live_trees == 0


async def test_a_profile_grants_and_its_absence_does_not(tmp_path: Path) -> None:
    """In pairs: a file beside the configuration, without and with a profile that grants it."""
    secret = tmp_path / "data.txt"
    secret.write_text("inside")
    servers = {
        "s": fixture_server(),
        "t": fixture_server(sandbox="readonly"),
        "u": fixture_server(cwd=str(tmp_path)),
    }
    tools = ["mcp/s/read", "mcp/t/read", "mcp/u/read"]
    async with runtime_of(tmp_path, tools, servers) as runtime:
        call = runtime.registry.dispatch
        refused = await call("s__read", {"path": str(secret)})
        assert refused.is_error
        assert refused.origin == "tool"
        assert (await call("t__read", {"path": str(secret)})).text == "inside"
        assert (await call("u__read", {"path": "data.txt"})).text == "inside"
        for name in ("s__read", "t__read", "u__read"):
            assert (await call(name, {"path": "/etc/passwd"})).is_error


async def test_a_network_is_there_only_where_a_profile_grants_it(tmp_path: Path) -> None:
    """In pairs: a listener on this host, without and with ``network: host``."""
    servers = {"s": fixture_server(), "t": fixture_server(sandbox="online")}
    sandbox = {"profiles": {"online": {"network": "host"}}}
    async with runtime_of(
        tmp_path, ["mcp/s/connect", "mcp/t/connect"], servers, sandbox=sandbox
    ) as runtime:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = {"port": listener.getsockname()[1]}
            refused = await runtime.registry.dispatch("s__connect", port)
            assert (refused.is_error, refused.origin) == (True, "tool")
            assert (await runtime.registry.dispatch("t__connect", port)).text == "connected"


async def test_a_recursive_schema_is_checked_to_its_depth(tmp_path: Path) -> None:
    """Recursive schemas."""
    async with runtime_of(tmp_path, ["tree"]) as runtime:
        good: dict[str, Any] = {}
        for _ in range(30):
            good = {"next": good}
        assert (await runtime.registry.dispatch("s__tree", good)).text == "tree"
        bad = await runtime.registry.dispatch("s__tree", {"next": {"next": {"x": 1}}})
        assert bad.code == "invalid_arguments"
        assert bad.detail["problems"][0]["pointer"].startswith("/next/next")


async def test_a_dry_run_is_refused(tmp_path: Path) -> None:
    """The server's process changes files in place; nothing could be held back."""
    async with runtime_of(tmp_path, ["count"]) as runtime:
        refused = await runtime.registry.dispatch("s__count", {}, dry_run=True)
        assert refused.code == "sandbox_unavailable"
        assert (await runtime.registry.dispatch("s__count", {})).text == "1"


async def test_calls_run_side_by_side_and_a_thousand_are_fine(tmp_path: Path) -> None:
    """1,000 calls at once; each gets its own answer."""
    async with runtime_of(tmp_path, ["echo"]) as runtime:
        texts: dict[int, str] = {}

        async def one(number: int) -> None:
            result = await runtime.registry.dispatch("s__echo", {"text": str(number)})
            texts[number] = result.text

        async with trio.open_nursery() as nursery:
            for number in range(1000):
                nursery.start_soon(one, number)
    assert texts == {number: str(number) for number in range(1000)}


async def test_the_cache_key_follows_the_definitions(tmp_path: Path) -> None:
    """What the model sees changes it; a server's other tools do not."""
    async with runtime_of(tmp_path, ["mcp/s/echo"]) as runtime:
        first = runtime.cache_key
    async with runtime_of(tmp_path, ["mcp/s/echo"]) as runtime:
        assert runtime.cache_key == first
    changed = {"s": fixture_server("other-echo")}
    async with runtime_of(tmp_path, ["mcp/s/echo"], changed) as runtime:
        assert runtime.cache_key != first


async def test_an_mcp_tool_is_told_to_every_provider(tmp_path: Path) -> None:
    """Provider profiles take its definition as any other."""
    async with runtime_of(tmp_path, ["add"]) as runtime:
        (definition,) = runtime.registry.definitions("anthropic")
        assert definition["name"] == "s__add"
        assert definition["input_schema"]["required"] == ["a", "b"]


async def test_only_servers_of_selected_tools_are_started(tmp_path: Path) -> None:
    """A server that nobody asked for costs nothing and can do nothing."""
    servers = {"s": fixture_server(), "idle": fixture_server("exit")}
    async with runtime_of(tmp_path, ["echo"], servers) as runtime:
        assert runtime.statistics().live_trees == 1
        assert runtime.warnings == ()


def test_without_the_sdk_the_reason_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The extra is optional; its absence is a reason, not a crash."""
    import importlib

    real = importlib.import_module

    def without(name: str, package: str | None = None) -> Any:
        if name == "raw_exec.mcp_client.connection":
            raise ModuleNotFoundError("No module named 'mcp'", name="mcp")
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", without)
    config = mcp_config(tmp_path, ["mcp/s/echo"], {"s": fixture_server()})

    async def main() -> Any:
        async with raw_exec.open_runtime(config, cwd=tmp_path) as runtime:
            (warning,) = runtime.warnings
            return warning, await runtime.registry.dispatch("s__echo", {})

    warning, result = trio.run(main)
    assert warning.endswith("mcp is not installed (pip install 'raw-exec[mcp]')")
    assert result.code == "mcp_unavailable"
    assert "mcp is not installed" in result.text
    assert result.hints == ("pip install 'raw-exec[mcp]'",)
