"""Sessions with real workers: what is shown, what is kept, and what a call can't do."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

import raw_exec
from raw_exec.history import HistoryError
from raw_exec.interactions import CallbackAdapter
from raw_exec.panels import PanelView
from raw_exec.sessions import Session
from requires import require_node
from toolbox import footprint, write_config, write_tool

SECONDS = 60
PANELS = [{"id": "p", "title": "P"}]
DOC = {"blocks": [{"id": "b", "kind": "markdown", "text": "hello"}]}

STREAM = {
    "python": """
def handler(args, context):
    first = context.panels.update('p', {'op': 'replace', 'document': args['doc']})
    got = context.panels.get('p')
    if args.get('fail'):
        raise ValueError('after the update')
    if args.get('die'):
        import os
        os._exit(3)
    if args.get('hang'):
        while True:
            pass
    return {'content': [{'type': 'json', 'value': [first, got['revision']]}]}
""",
    "esm": """
export async function handler(args, context) {
  const first = await context.panels.update('p', { op: 'replace', document: args.doc });
  const got = await context.panels.get('p');
  if (args.fail) throw new Error('after the update');
  if (args.die) process.exit(3);
  if (args.hang) for (;;);
  return { content: [{ type: 'json', value: [first, got.revision] }] };
}
""",
}
BLOCKS = """
def handler(args, context):
    return {'content': args['content'], 'isError': bool(args.get('isError'))}
"""


@asynccontextmanager
async def opened(
    root: Path, *, history: Path | None = None, resume: bool = False, **options: Any
) -> AsyncIterator[Session]:
    """Open a session ``s`` of the configuration in ``root``."""
    config = raw_exec.load_config(root / "config.json")
    on_panel = options.pop("on_panel", None)
    async with (
        raw_exec.open_runtime(config, cwd=root, history=history, **options) as runtime,
        runtime.open_session("s", on_panel=on_panel, resume=resume) as session,
    ):
        yield session


def python_tool(root: Path, source: str, **fields: Any) -> None:
    write_tool(root, "t", source, language="python", panels=PANELS, **fields)
    write_config(root, ["t"])


def stream_tool(root: Path, language: str) -> None:
    if language == "esm":
        require_node()
    write_tool(root, "t", STREAM[language], language=language, panels=PANELS)
    write_config(root, ["t"])


@pytest.mark.parametrize("language", ["python", "esm"])
async def test_updates_are_seen_live_and_kept_with_the_result(
    tmp_path: Path, language: str
) -> None:
    """Streaming shows at once; the history has it with the call."""
    stream_tool(tmp_path, language)
    seen: list[tuple[int, bool]] = []

    async def show(view: PanelView) -> None:
        seen.append((view.revision, view.committed))

    with trio.fail_after(SECONDS):
        async with opened(tmp_path, on_panel=show, history=tmp_path / "h.db") as session:
            result = await session.dispatch("t", {"doc": DOC})
            assert result.content[0]["value"] == [1, 1], result.text
            assert [p.panel for p in await session.history.panels("s")] == ["agent/t#p"]
    assert seen[0] == (1, False)
    assert seen[-1] == (1, True)


@pytest.mark.parametrize("language", ["python", "esm"])
@pytest.mark.parametrize(
    ("how", "code"), [("fail", "handler_error"), ("die", "worker_crashed"), ("hang", "timeout")]
)
async def test_an_update_is_kept_however_its_call_ends(
    tmp_path: Path, how: str, code: str, language: str
) -> None:
    """Errors included: a person has seen it."""
    stream_tool(tmp_path, language)
    with trio.fail_after(SECONDS):
        async with opened(tmp_path) as session:
            timeout = 1.0 if how == "hang" else None
            result = await session.dispatch("t", {"doc": DOC, how: True}, timeout_seconds=timeout)
            kept = await session.history.panels("s")
            (call,) = await session.history.calls("s")
    assert (result.code, call.code, call.state) == (code, code, "done")
    assert [(panel.panel, panel.revision) for panel in kept] == [("agent/t#p", 1)]


@pytest.mark.parametrize("language", ["python", "esm"])
async def test_a_call_that_is_given_up_is_kept_as_aborted(tmp_path: Path, language: str) -> None:
    """Its panel too; the cancellation goes on when that is stored."""
    stream_tool(tmp_path, language)
    shown = trio.Event()

    async def show(_view: PanelView) -> None:
        shown.set()

    with trio.fail_after(SECONDS):
        async with opened(tmp_path, on_panel=show) as session:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.dispatch, "t", {"doc": DOC, "hang": True})
                await shown.wait()
                nursery.cancel_scope.cancel()
            (call,) = await session.history.calls("s")
            assert (call.state, call.code, call.is_error) == ("done", "aborted", True)
            assert session.panel("agent/t#p").committed


async def test_panel_blocks_are_confirmed_in_a_line_when_there_is_nothing_else(
    tmp_path: Path,
) -> None:
    """Otherwise the model is told nothing of updates that were accepted."""
    python_tool(tmp_path, BLOCKS)
    block = {"type": "panel", "panel": "p", "op": "replace", "document": {**DOC, "summary": "hi"}}
    text = {"type": "text", "text": "done"}
    with trio.fail_after(SECONDS):
        async with opened(tmp_path) as session:
            alone = await session.dispatch("t", {"content": [block]})
            beside = await session.dispatch("t", {"content": [text, block]})
            stored = await session.history.calls("s")
    assert alone.content == ({"type": "text", "text": "panel p updated (revision 1): hi"},)
    assert beside.content == (text,)
    assert all("document" not in json.dumps(list(call.content or ())) for call in stored)


@pytest.mark.parametrize(
    ("block", "code"),
    [
        ({"panel": "q", "op": "close"}, "panel_undeclared"),
        ({"panel": "agent/other#p", "op": "close"}, "panel_not_owned"),
        ({"panel": "p", "op": "patch", "patches": []}, "panel_unknown"),
        ({"panel": "p", "op": "replace", "document": {"blocks": [], "x": 1}}, "panel_invalid"),
        (
            {"panel": "p", "op": "replace", "document": {"blocks": [
                {"id": f"b{n}", "kind": "markdown", "text": "x" * 16000} for n in range(5)]}},
            "panel_too_large",
        ),
    ],
)  # fmt: skip
async def test_a_rejected_block_never_fails_the_tool(
    tmp_path: Path, block: dict[str, Any], code: str
) -> None:
    """One line for the model, a receipt for the history, even where the output is full."""
    python_tool(tmp_path, BLOCKS)
    content = [{"type": "text", "text": "x" * 5000}, {"type": "panel", **block}]
    with trio.fail_after(SECONDS):
        async with opened(tmp_path) as session:
            result = await session.dispatch("t", {"content": content}, max_output_bytes=1000)
            receipts = await session.history.receipts("s", kind="panel_rejected")
    assert not result.is_error
    name = block["panel"]
    assert result.content[-1]["text"].startswith(f"panel {name} update rejected: {code} ")
    assert [receipt.body["code"] for receipt in receipts] == [code]


LATE = {
    "python": """
kept = []
def handler(args, context):
    kept.append(context)
    try:
        kept[0].panels.update('p', {'op': 'replace', 'document': {'blocks': []}})
    except Exception as exc:
        return {'content': [{'type': 'text', 'text': exc.code}]}
    return {'content': []}
""",
    "esm": """
let kept;
export async function handler(args, context) {
  kept ??= context;
  try {
    await kept.panels.update('p', { op: 'replace', document: { blocks: [] } });
  } catch (error) {
    return { content: [{ type: 'text', text: error.code }] };
  }
  return { content: [] };
}
""",
}


@pytest.mark.parametrize("language", ["python", "esm"])
async def test_an_update_after_the_handler_settled_reaches_nothing(
    tmp_path: Path, language: str
) -> None:
    """A thread or a promise that was left behind has lost its context."""
    if language == "esm":
        require_node()
    write_tool(tmp_path, "t", LATE[language], language=language, panels=PANELS)
    write_config(tmp_path, ["t"])
    with trio.fail_after(SECONDS):
        async with opened(tmp_path) as session:
            await session.dispatch("t", {})
            late = await session.dispatch("t", {})
            assert session.panel("agent/t#p").revision == 1
    assert late.text == "ended"


async def test_a_click_approves_nothing(tmp_path: Path) -> None:
    """An action of a panel is asked about like any call, and told apart by its source."""
    action = {"id": "go", "label": "Go", "kind": "tool", "arguments": {"content": []}}
    write_tool(
        tmp_path, "t", BLOCKS, language="python", panels=[{**PANELS[0], "actions": [action]}]
    )
    write_config(tmp_path, ["t"], rules=[{"match": "*", "effect": "ask"}])
    asked: list[str] = []

    def approve(request: raw_exec.ApprovalRequest) -> bool:
        asked.append(request.tool_call_id)
        return len(asked) == 1

    block = {"type": "panel", "panel": "p", "op": "replace", "document": DOC}
    with trio.fail_after(SECONDS):
        async with opened(tmp_path, approve=approve) as session:
            await session.dispatch("t", {"content": [block]})
            clicked = await session.run_action(session.resolve_action("agent/t#p", "go"))
            (newest, _) = await session.history.calls("s")
    assert isinstance(clicked, raw_exec.ToolResult)
    assert (clicked.code, len(asked), newest.source) == ("approval_denied", 2, "user_action")


async def test_panels_are_there_again_after_a_restart(tmp_path: Path) -> None:
    """And revisions go on where they were."""
    python_tool(tmp_path, STREAM["python"])
    store = tmp_path / "h.db"
    with trio.fail_after(SECONDS):
        async with opened(tmp_path, history=store) as session:
            await session.dispatch("t", {"doc": DOC})
        assert (store.stat().st_mode & 0o777) == 0o600
        async with opened(tmp_path, history=store, resume=True) as session:
            assert [(v.id, v.revision) for v in session.panels()] == [("agent/t#p", 1)]
            result = await session.dispatch("t", {"doc": DOC})
    assert result.content[0]["value"] == [2, 2]


async def test_a_history_of_a_newer_version_is_refused_before_anything_runs(
    tmp_path: Path,
) -> None:
    """Named, and left as it is."""
    python_tool(tmp_path, STREAM["python"])
    store = tmp_path / "h.db"
    with trio.fail_after(SECONDS):
        async with opened(tmp_path, history=store):
            pass
        with sqlite3.connect(store) as db:
            db.execute("PRAGMA user_version = 999")
        with pytest.raises(HistoryError) as caught:
            async with opened(tmp_path, history=store, resume=True):
                pass
    assert caught.value.code == "history_version"


_HOST = """
import sys, trio
sys.path[:0] = sys.argv[3:]
import raw_exec
from pathlib import Path
from raw_exec.interactions import CallbackAdapter
root, mode = Path(sys.argv[1]), sys.argv[2]
async def never(question, problems):
    print('asked', flush=True)
    await trio.sleep_forever()
async def main():
    config = raw_exec.load_config(root / 'config.json')
    async with (
        raw_exec.open_runtime(
            config, cwd=root, history=root / 'h.db', interact=CallbackAdapter(never)
        ) as runtime,
        runtime.open_session('s') as session,
    ):
        await session.dispatch('todo', {'mode': 'merge', 'todos': [{'label': 'A'}]})
        await session.dispatch('process', {'action': 'start', 'command': 'sleep 60'})
        question = {'id': 'a', 'label': '?', 'kind': 'text'}
        await session.dispatch('ask_user', {'questions': [question]})
trio.run(main)
"""


async def test_a_killed_host_loses_no_panel_and_its_question_and_job_are_settled(
    tmp_path: Path,
) -> None:
    """Pending questions become interrupted and running jobs lost; nothing of it survives."""
    tools = ["builtin/todo", "builtin/process", "builtin/ask_user"]
    write_config(tmp_path, tools)
    before = footprint()
    paths = [str(Path(raw_exec.__file__).parents[1])]
    host = subprocess.Popen(  # noqa: ASYNC220  (killed by its own number below)
        [sys.executable, "-c", _HOST, str(tmp_path), "ask", *paths],
        stdout=subprocess.PIPE,
        env={**os.environ},
    )
    with trio.fail_after(SECONDS):
        assert host.stdout is not None
        line = await trio.to_thread.run_sync(host.stdout.readline)
        assert line == b"asked\n"
        host.send_signal(signal.SIGKILL)
        await trio.to_thread.run_sync(host.wait)
        host.stdout.close()
        async with opened(tmp_path, history=tmp_path / "h.db", resume=True) as session:
            assert [v.id for v in session.panels()] == ["builtin/todo#todo"]
            (question,) = await session.history.interactions("s")
            (job,) = await session.history.jobs("s")
            calls = await session.history.calls("s")
    assert (question.state, job.state) == ("interrupted", "lost")
    assert [call.state for call in calls] == ["interrupted", "done", "done"]
    assert footprint().fds <= before.fds


async def test_jobs_belong_to_their_session_and_end_with_it(tmp_path: Path) -> None:
    """What one session started, another can't see."""
    write_config(tmp_path, ["builtin/process"])
    config = raw_exec.load_config(tmp_path / "config.json")
    with trio.fail_after(SECONDS):
        async with raw_exec.open_runtime(config, cwd=tmp_path) as runtime:
            async with runtime.open_session("one") as one, runtime.open_session("two") as two:
                start = {"action": "start", "command": "sleep 1000"}
                job = (await one.dispatch("process", start)).content[0]["value"]["job"]
                other = await two.dispatch("process", {"action": "list"})
                assert other.content[0]["value"]["jobs"] == []
                history = one.history
            (record,) = await history.jobs("one")
            assert (record.job_id, record.state) == (job["id"], "stopped")
            assert runtime.statistics().live_trees <= 1  # the worker that asked


async def test_hooks_are_told_which_session_and_turn_an_event_belongs_to(tmp_path: Path) -> None:
    """Session events are calls on the session; their receipts are kept with it."""
    folder = tmp_path / "hooks" / "tell"
    folder.mkdir(parents=True)
    events = ["SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"]
    manifest = {
        "protocol_version": 2,
        "name": "tell",
        "events": [{"name": name} for name in events],
        "command": "./tell.py",
    }
    (folder / "hook.json").write_text(json.dumps(manifest))
    (folder / "tell.py").write_text(
        "#!/usr/bin/env python3\nimport json, sys\nevent = json.load(sys.stdin)\n"
        "told = [event['event'], event['session_id'], event.get('turn_id'), event.get('prompt')]\n"
        "deny = event.get('prompt') == 'bad'\n"
        "print(json.dumps({'decision': 'deny' if deny else 'continue',"
        " **({'reason': 'no'} if deny else {}), 'message': json.dumps(told)}))\n"
    )
    (folder / "tell.py").chmod(0o755)
    write_config(tmp_path, [], agent={"hooks": {"use": ["agent/tell"]}})
    with trio.fail_after(SECONDS):
        async with opened(tmp_path) as session:
            await session.start()
            good = await session.submit_prompt("good", turn_id="t1")
            bad = await session.submit_prompt("bad", turn_id="t2")
            await session.stop(turn_id="t1")
            await session.end()
            receipts = await session.history.receipts("s", kind="hook")
    assert (good.allowed, bad.allowed) == (True, False)
    assert bad.reason is not None
    told = [json.loads(str(r.body["message"])) for r in receipts if r.body["outcome"] != "denied"]
    assert told == [
        ["SessionStart", "s", None, None],
        ["UserPromptSubmit", "s", "t1", "good"],
        ["Stop", "s", "t1", None],
        ["SessionEnd", "s", None, None],
    ]


async def test_a_runtime_without_sessions_opens_no_history(tmp_path: Path) -> None:
    """Who does not use them pays nothing for them."""
    python_tool(tmp_path, BLOCKS)
    config = raw_exec.load_config(tmp_path / "config.json")
    with trio.fail_after(SECONDS):
        async with raw_exec.open_runtime(config, cwd=tmp_path) as runtime:
            await runtime.registry.dispatch("t", {"content": []})
            assert runtime._keeper._opened is None


async def test_an_answer_reaches_the_tool_and_the_history(tmp_path: Path) -> None:
    """In ESM as in Python; the question is answered once."""
    require_node()
    source = """
export async function handler(args, context) {
  const form = { id: 'f', kind: 'form', fields: [{ id: 'a', label: '?', kind: 'text' }] };
  const answer = await context.interactions.request({ panel: 'p', document: { blocks: [form] } });
  return { content: [{ type: 'json', value: answer.answers }] };
}
"""
    write_tool(tmp_path, "t", source, panels=PANELS)
    write_config(tmp_path, ["t"])
    adapter = CallbackAdapter(lambda _question, _problems: {"a": "yes"})
    with trio.fail_after(SECONDS):
        async with opened(tmp_path, interact=adapter) as session:
            result = await session.dispatch("t", {})
            (question,) = await session.history.interactions("s")
    assert result.content == ({"type": "json", "value": {"a": "yes"}},)
    assert (question.state, question.owner, question.panel) == ("answered", "agent/t", "agent/t#p")
