"""Panels of a session with real workers: limits, owners, concurrency, actions, hooks."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import trio

import raw_exec
from raw_exec.panels import PanelError, PanelView, PromptAction, ToolAction
from tests.sessions.support import (
    DOC,
    LANGUAGES,
    PANEL,
    PANELS,
    SECONDS,
    block,
    blocks_tool,
    document_of,
    opened,
    replace,
    steps,
    steps_tool,
)
from toolbox import write_config, write_tool

APPEND = {"op": "patch", "patches": [{"op": "set", "field": "title", "value": "more"}]}


# ---------------------------------------------------------------- live


async def test_frames_that_a_slow_client_misses_are_replaced_by_the_last(tmp_path: Path) -> None:
    """Coalesced: one frame at a time, the newest state wins, the committed one is always sent."""
    steps_tool(tmp_path)
    write_config(tmp_path, ["t"])
    seen: list[tuple[int, bool]] = []
    over = trio.Event()

    async def show(view: PanelView) -> None:
        seen.append((view.revision, view.committed))
        await over.wait()

    with trio.fail_after(SECONDS):
        async with opened(tmp_path, on_panel=show) as session:
            await steps(session, *([["update", "p", replace()]] * 50))
            over.set()
    assert seen == [(1, False), (50, True)]


async def test_a_client_that_fails_misses_frames_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The session and the call go on; the log says it."""
    steps_tool(tmp_path)
    write_config(tmp_path, ["t"])

    async def show(_view: PanelView) -> None:
        raise ValueError("no screen")

    with trio.fail_after(SECONDS):
        async with opened(tmp_path, on_panel=show) as session:
            assert await steps(session, ["update", "p", replace()]) == [1]
    assert "showing panel agent/t#p failed" in caplog.text


# ---------------------------------------------------------------- limits


@pytest.mark.parametrize("language", LANGUAGES)
async def test_the_201st_update_of_a_call_is_refused(tmp_path: Path, language: str) -> None:
    """panel_rate_limited; the two hundred before it stay, and the next call may go on."""
    steps_tool(tmp_path, language)
    write_config(tmp_path, ["t"])
    with trio.fail_after(SECONDS):
        async with opened(tmp_path) as session:
            got = await steps(session, *([["update", "p", replace()]] * 201))
            receipts = await session.history.receipts("s", kind="panel_rejected")
            again = await steps(session, ["update", "p", replace()])
    assert got == [*range(1, 201), "panel_rate_limited"]
    assert [receipt.body["code"] for receipt in receipts] == ["panel_rate_limited"]
    assert again == [201]


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_document_of_65_537_bytes_is_refused(tmp_path: Path, language: str) -> None:
    """panel_too_large, where 65,536 are fine; streaming as in a result."""
    steps_tool(tmp_path, language)
    write_config(tmp_path, ["t"])
    largest, larger = replace(document_of(65_536)), replace(document_of(65_537))
    with trio.fail_after(SECONDS):
        async with opened(tmp_path) as session:
            got = await steps(session, ["update", "p", largest], ["update", "p", larger])
            assert session.panel(PANEL).revision == 1
    assert got == [1, "panel_too_large"]


async def test_a_seventeenth_panel_needs_a_closed_one_to_make_room(tmp_path: Path) -> None:
    """Sixteen with data per session; another session has sixteen of its own."""
    names = [f"t{n}" for n in range(5)]
    for name in names:
        panels = [{"id": f"p{n}", "title": "P"} for n in range(4)]
        steps_tool(tmp_path, "python", name, panels)
    write_config(tmp_path, names)
    config = raw_exec.load_config(tmp_path / "config.json")
    fill = {"steps": [["update", f"p{n}", replace()] for n in range(4)]}
    with trio.fail_after(SECONDS):
        async with (
            raw_exec.open_runtime(config, cwd=tmp_path, spares=0) as runtime,
            runtime.open_session() as session,
            runtime.open_session() as other,
        ):
            for name in names[:4]:
                await session.dispatch(name, fill)
            refused = await session.dispatch("t4", fill)
            await session.dispatch("t2", {"steps": [["update", "p1", {"op": "close"}]]})
            room = await session.dispatch("t4", fill)
            elsewhere = await other.dispatch("t4", fill)
            ids = [view.id for view in session.panels()]
    assert refused.content[0]["value"] == ["panel_limit"] * 4
    assert room.content[0]["value"] == [1, *["panel_limit"] * 3]
    assert elsewhere.content[0]["value"] == [1, 1, 1, 1]
    assert len(ids) == 16
    assert ("agent/t2#p1" in ids, "agent/t4#p0" in ids) == (False, True)


async def test_chat_panels_of_ended_calls_make_room(tmp_path: Path) -> None:
    """One instance per call, so that a conversation is not full after sixteen calls."""
    steps_tool(tmp_path, panels=[{"id": "p", "title": "P", "placement": "chat"}])
    write_config(tmp_path, ["t"])
    with trio.fail_after(SECONDS):
        async with opened(tmp_path) as session:
            for number in range(17):
                got = await steps(
                    session, ["update", "p", replace()], tool_call_id=f"call_{number}"
                )
                assert got == [1]
            ids = [view.id for view in session.panels()]
    assert ids == [f"{PANEL}@call_{number}" for number in range(1, 17)]


# ---------------------------------------------------------------- owners


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_tool_reaches_its_own_panels_only(tmp_path: Path, language: str) -> None:
    """Neither another tool's nor undeclared ones, whatever they are called; its own by full ID."""
    steps_tool(tmp_path, language)
    steps_tool(tmp_path, "python", "other")
    write_config(tmp_path, ["t", "other"])
    foreign = "agent/other#p"
    with trio.fail_after(SECONDS):
        async with opened(tmp_path) as session:
            other = {"steps": [["update", "p", replace()]]}
            await session.dispatch("other", other)
            got = await steps(
                session,
                ["update", foreign, replace()],
                ["get", foreign],
                ["update", "q", replace()],
                ["get", "p"],
                ["update", PANEL, replace()],
                ["get", "p"],
                ["update", "p", {**APPEND, "base_revision": 7}],
                ["update", "p", {"op": "replace", "document": {"blocks": [], "x": 1}}],
                ["ask", {"panel": foreign, "document": DOC}],
            )
            assert session.panel(foreign).revision == 1
    assert got == [
        "panel_not_owned",
        "panel_not_owned",
        "panel_undeclared",
        None,
        1,
        [1, DOC],
        "panel_revision_conflict",
        "panel_invalid",
        "panel_not_owned",
    ]


async def test_calls_at_the_same_time_share_a_panel_and_keep_what_each_did(
    tmp_path: Path,
) -> None:
    """A call sees the other's update at once; the highest revision is the panel's at the end."""
    steps_tool(tmp_path)
    write_config(tmp_path, ["t"])
    os.mkfifo(tmp_path / "gate")
    shown = trio.Event()
    slow: list[Any] = []

    async def show(_view: PanelView) -> None:
        shown.set()

    with trio.fail_after(SECONDS):
        async with (
            opened(tmp_path, on_panel=show) as session,
            trio.open_nursery() as nursery,
        ):

            async def first() -> None:
                slow.extend(
                    await steps(
                        session,
                        ["update", "p", replace()],
                        ["wait", "gate"],
                        ["update", "p", {**APPEND, "base_revision": 1}],
                        ["get", "p"],
                    )
                )

            nursery.start_soon(first)
            await shown.wait()
            # The first call is in its second step; a second worker takes this one.
            quick = await steps(session, ["get", "p"], ["update", "p", APPEND])
            middle = session.panel(PANEL)
            await trio.to_thread.run_sync((tmp_path / "gate").write_text, "go")
    assert quick == [[1, DOC], 2]
    assert (middle.revision, middle.committed) == (2, True)
    assert slow == [1, "go", "panel_revision_conflict", [2, {**DOC, "title": "more"}]]


async def test_an_older_revision_that_is_settled_later_does_not_win(tmp_path: Path) -> None:
    """The history keeps both; after a restart the panel is at the higher one."""
    steps_tool(tmp_path)
    write_config(tmp_path, ["t"])
    os.mkfifo(tmp_path / "gate")
    shown = trio.Event()
    store = tmp_path / "h.db"

    async def show(_view: PanelView) -> None:
        shown.set()

    with trio.fail_after(SECONDS):
        async with (
            opened(tmp_path, on_panel=show, history=store) as session,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(steps, session, ["update", "p", replace()], ["wait", "gate"])
            await shown.wait()
            await steps(session, ["update", "p", APPEND])
            await trio.to_thread.run_sync((tmp_path / "gate").write_text, "go")
        async with opened(tmp_path, history=store, resume=True) as session:
            kept = await session.history.panel_revisions("s", PANEL)
            assert session.panel(PANEL).document["title"] == "more"
    assert [revision.revision for revision in kept] == [2, 1]


# ---------------------------------------------------------------- results


async def test_an_error_result_updates_panels_too(tmp_path: Path) -> None:
    """Panel updates are included with the tool result, including when it is an error."""
    blocks_tool(tmp_path)
    content = [{"type": "text", "text": "failed"}, block()]
    with trio.fail_after(SECONDS):
        async with opened(tmp_path) as session:
            result = await session.dispatch("t", {"content": content, "isError": True})
            (kept,) = await session.history.panels("s")
    assert (result.is_error, result.content) == (True, ({"type": "text", "text": "failed"},))
    assert (kept.panel, kept.revision) == (PANEL, 1)


async def test_confirmations_and_rejections_stand_together(tmp_path: Path) -> None:
    """A result of panel blocks only: one line for what was done, one for what was refused."""
    blocks_tool(tmp_path)
    bad = {"type": "panel", "panel": "nope", "op": "close"}
    with trio.fail_after(SECONDS):
        async with opened(tmp_path) as session:
            result = await session.dispatch("t", {"content": [block(), bad]})
            full = await session.dispatch("t", {"content": [block(), bad]}, max_output_bytes=70)
    assert [item["text"].split(":")[0] for item in result.content] == [
        "panel p updated (revision 1)",
        "panel nope update rejected",
    ]
    assert full.content[0]["text"].startswith("panel p updated (revision 2): ")
    assert full.usage["truncated_bytes"] > 0


async def test_a_panel_block_without_a_session_is_refused_in_a_line(tmp_path: Path) -> None:
    """The tool has not failed: there is only nobody to show it to."""
    blocks_tool(tmp_path)
    config = raw_exec.load_config(tmp_path / "config.json")
    with trio.fail_after(SECONDS):
        async with raw_exec.open_runtime(config, cwd=tmp_path) as runtime:
            result = await runtime.dispatch("t", {"content": [block()]})
    assert not result.is_error
    assert result.text.startswith("panel p update rejected: panel_closed_context ")


async def test_hooks_never_see_panel_blocks_or_the_lines_about_them(tmp_path: Path) -> None:
    """They are taken out before hooks; a click is told apart by its source, also in the audit."""
    folder = tmp_path / "hooks" / "tell"
    folder.mkdir(parents=True)
    events = [{"name": name} for name in ("PreToolUse", "PostToolUse")]
    manifest = {"protocol_version": 2, "name": "tell", "events": events, "command": "./tell.py"}
    (folder / "hook.json").write_text(json.dumps(manifest))
    (folder / "tell.py").write_text(
        "#!/usr/bin/env python3\nimport json, sys\ntool = json.load(sys.stdin)['tool']\n"
        "told = [tool['source'], tool.get('result', {}).get('content')]\n"
        "print(json.dumps({'decision': 'continue', 'message': json.dumps(told)}))\n"
    )
    (folder / "tell.py").chmod(0o755)
    action = {"id": "go", "label": "Go", "kind": "tool", "arguments": {"content": []}}
    blocks_tool(tmp_path, actions=[action])
    write_config(tmp_path, ["t"], agent={"hooks": {"use": ["agent/tell"]}})
    text = {"type": "text", "text": "x"}
    audit = tmp_path / "audit.jsonl"
    with trio.fail_after(SECONDS):
        async with opened(tmp_path, audit=audit) as session:
            first = await session.dispatch("t", {"content": [text, block()]})
            clicked = await session.run_action(session.resolve_action(PANEL, "go"))
            receipts = await session.history.receipts("s", kind="hook")
    assert isinstance(clicked, raw_exec.ToolResult)
    told = [[json.loads(str(r.message)) for r in result.hooks] for result in (first, clicked)]
    assert told == [
        [["model", None], ["model", [text]]],
        [["user_action", None], ["user_action", []]],
    ]
    assert [r.tool_call_id for r in receipts] == [first.tool_call_id] * 2 + [
        clicked.tool_call_id
    ] * 2
    records = [json.loads(line) for line in audit.read_text().splitlines()]
    assert [record["source"] for record in records] == ["model", "user_action"]


# ---------------------------------------------------------------- actions


async def test_a_prompt_action_drafts_and_runs_nothing(tmp_path: Path) -> None:
    """Templates are filled from the item; no call is made."""
    prompt = "Explain {{item.id}}: {{item.label}}"
    action = {"id": "why", "label": "Why", "scope": "item", "kind": "prompt", "text": prompt}
    blocks_tool(tmp_path, actions=[{**action, "confirm": "Really ask?"}])
    items = [{"id": "i", "label": "{{panel.id}}"}]
    document = {"blocks": [{"id": "c", "kind": "checklist", "items": items}]}
    with trio.fail_after(SECONDS):
        async with opened(tmp_path) as session:
            await session.dispatch("t", {"content": [block(document)]})
            found = session.resolve_action(PANEL, "why", block="c", item="i", revision=1)
            drafted = await session.run_action(found)
            calls = await session.history.calls("s")
            with pytest.raises(PanelError) as stale:
                session.resolve_action(PANEL, "why", block="c", item="i", revision=0)
    assert found == PromptAction("Explain i: {{panel.id}}", "Really ask?")
    assert (drafted, len(calls)) == ("Explain i: {{panel.id}}", 1)
    assert stale.value.code == "panel_revision_conflict"


async def test_a_tool_action_with_arguments_that_do_not_fit_is_refused_like_any_call(
    tmp_path: Path,
) -> None:
    """Schema first: what a label says reaches a handler only where the schema lets it."""
    action = {"id": "go", "label": "Go", "kind": "tool", "arguments": {"content": "no list"}}
    schema = {"type": "object", "properties": {"content": {"type": "array"}}}
    source = "def handler(args, context):\n    return {'content': args['content']}\n"
    panels = [{**PANELS[0], "actions": [action]}]
    write_tool(tmp_path, "t", source, language="python", schema=schema, panels=panels)
    write_config(tmp_path, ["t"])
    with trio.fail_after(SECONDS):
        async with opened(tmp_path) as session:
            await session.dispatch("t", {"content": [block()]})
            found = session.resolve_action(PANEL, "go")
            result = await session.run_action(found)
    assert isinstance(found, ToolAction)
    assert isinstance(result, raw_exec.ToolResult)
    assert (result.code, result.stage) == ("invalid_arguments", "schema")


async def test_the_reminder_has_summary_panels_only(tmp_path: Path) -> None:
    """Text for the model after a compaction, and "" without any."""
    panels = [{**PANELS[0], "context": "summary"}, {"id": "q", "title": "Q"}]
    steps_tool(tmp_path, panels=panels)
    write_config(tmp_path, ["t"])
    with trio.fail_after(SECONDS):
        async with opened(tmp_path) as session:
            assert session.reminder() == ""
            document = {"blocks": [], "context_summary": "two left"}
            secret = {"blocks": [], "context_summary": "not for the model"}
            await steps(
                session, ["update", "p", replace(document)], ["update", "q", replace(secret)]
            )
            reminder = session.reminder()
    assert "two left" in reminder
    assert "not for the model" not in reminder
