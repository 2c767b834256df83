"""The complete example of the page runs as printed, and the example tools do what they say."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import trio

import raw_exec
from raw_exec.interactions import CallbackAdapter, Question
from raw_exec.panels import PanelView, PromptAction
from requires import require_node
from tests.sessions.support import SECONDS, opened
from toolbox import write_config

ROOT = Path(raw_exec.__file__).parents[1]


def copy_tool(root: Path, name: str) -> None:
    folder = root / "tools" / name
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "examples" / "tools" / name, folder, ignore=ignore)
    write_config(root, [name])


def test_the_program_of_the_page_runs_and_is_taken_up_again(tmp_path: Path) -> None:
    """docs/sessions.md, twice: the second run resumes the session of the first."""
    page = (ROOT / "docs" / "sessions.md").read_text()
    (program,) = [p for p in re.findall(r"```python\n(.*?)```", page, re.S) if "trio.run" in p]
    config = write_config(tmp_path, ["builtin/todo", "builtin/ask_user"])
    shown = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", program, str(config), str(tmp_path / "h.db")],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert (done.returncode, done.stderr) == (0, "")
        shown.append(done.stdout.splitlines())
    for lines in shown:
        assert lines[0] == "builtin/ask_user asks: Name of the branch?"
        assert {"items: 1", "left: 0"} <= set(lines)
        assert "frame: builtin/todo#todo" in "\n".join(lines)
        assert any("[x] Branch release-7" in line for line in lines)
    calls = ["ask_user", "todo", "todo"]
    assert [lines[-1] for lines in shown] == [str(calls), str(calls * 2)]


async def test_checklist_files_shows_each_file_and_offers_what_can_be_done(tmp_path: Path) -> None:
    """The example in Python: items, derived progress, a prompt and a tool action."""
    copy_tool(tmp_path, "checklist_files")
    (tmp_path / "good").write_text("a\n")
    (tmp_path / "bad").write_text("a")
    seen: list[PanelView] = []

    async def show(view: PanelView) -> None:
        seen.append(view)

    arguments = {"paths": ["good", "bad", "gone"]}
    panel = "agent/checklist_files#files"
    with trio.fail_after(SECONDS):
        async with opened(tmp_path, on_panel=show) as session:
            result = await session.dispatch("checklist_files", arguments)
            document = session.panel(panel).as_dict()["document"]
            mend = session.resolve_action(panel, "mend", block="files", item="f1")
            (tmp_path / "bad").write_text("a\n")
            again = await session.run_action(
                session.resolve_action(panel, "again", block="files", item="f1")
            )
        async with raw_exec.open_runtime(
            raw_exec.load_config(tmp_path / "config.json"), cwd=tmp_path
        ) as runtime:
            alone = await runtime.dispatch("checklist_files", arguments)
    assert result.content[0]["value"] == {
        "fine": ["good"],
        "no_line_break": ["bad"],
        "unreadable": ["gone"],
    }
    statuses = [item["status"] for item in document["blocks"][0]["items"]]
    assert (statuses, document["status"]) == (["done", "failed", "blocked"], "done")
    assert document["progress"] == {"done": 1, "total": 3}
    assert mend == PromptAction("Add the missing line break at the end of bad.", None)
    assert isinstance(again, raw_exec.ToolResult)
    assert again.content[0]["value"]["fine"] == ["bad"]
    assert alone.content[0]["value"]["fine"] == ["good", "bad"]
    assert seen[0].revision < seen[-1].revision


async def test_pick_files_returns_what_was_picked_and_shows_it(tmp_path: Path) -> None:
    """The example in ESM: a question, its answer in a panel, and a failure with its code."""
    require_node()
    copy_tool(tmp_path, "pick_files")
    answers: list[Any] = [{"picked": ["p1"], "remark": "old"}, {"picked": []}, None]

    def answer(_question: Question, _problems: Any) -> Any:
        return answers.pop(0)

    with trio.fail_after(SECONDS):
        async with opened(tmp_path, interact=CallbackAdapter(answer)) as session:
            arguments = {"paths": ["a", "b"], "why": "Which?"}
            results = [await session.dispatch("pick_files", arguments) for _ in range(3)]
            documents = [view.document for view in session.panels()]
    assert [r.content[0].get("value") for r in results] == [
        {"picked": ["b"], "remark": "old"},
        {"picked": []},
        None,
    ]
    assert (results[2].code, results[2].detail["unanswered"]) == (
        "interaction_cancelled",
        "interaction_cancelled",
    )
    assert [item["path"] for item in documents[0]["blocks"][0]["items"]] == ["b"]
