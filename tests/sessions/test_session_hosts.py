"""Hosts that are killed by force, and what the next one finds; sessions beside each other."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

import raw_exec
from raw_exec.history import HistoryError
from raw_exec.jobs.service import MAX_LIVE
from raw_exec.sessions import keeper
from tests.sessions.support import (
    LANGUAGES,
    PANEL,
    SECONDS,
    opened,
    question,
    replace,
    steps,
    steps_tool,
)
from toolbox import write_config

ROOT = Path(raw_exec.__file__).parents[1]

# Says each step; `when` is where it stops for ever, until it is killed.
_HOST = """
import json, sys, trio
import raw_exec
from pathlib import Path
root, when, steps = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])

def say(word):
    print(word, flush=True)

class Person:
    def can_ask(self, session):
        return True

    async def ask(self, question, reply):
        say('asked')
        if when == 'asked':
            await trio.sleep_forever()
        with trio.CancelScope(shield=True):
            await reply.answer({'a': 'yes'})
            say('answered')
            if when == 'answered':
                await trio.sleep_forever()

async def shown(view):
    say('committed' if view.committed else 'shown')

async def main():
    config = raw_exec.load_config(root / 'config.json')
    async with (
        raw_exec.open_runtime(
            config, cwd=root, history=root / 'h.db', interact=Person()
        ) as runtime,
        runtime.open_session('s', on_panel=shown) as session,
    ):
        await session.dispatch('t', {'steps': steps})
        say('returned')
        await trio.sleep_forever()

trio.run(main)
"""


@contextmanager
def killed(root: Path, when: str, *todo: Any) -> Iterator[None]:
    """Run a host until it says ``when``, and kill it by force there."""
    with subprocess.Popen(
        [sys.executable, "-c", _HOST, str(root), when, json.dumps(todo)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as host:
        assert host.stdout is not None
        try:
            for line in host.stdout:
                if line.strip() == when:
                    break
            else:
                raise AssertionError(f"the host ended before it said {when!r}")
            os.kill(host.pid, signal.SIGKILL)
            assert host.wait(timeout=SECONDS) == -signal.SIGKILL
        finally:
            host.kill()
    yield


def tool(root: Path, language: str = "python") -> Path:
    steps_tool(root, language)
    write_config(root, ["t"])
    os.mkfifo(root / "gate")
    return root / "h.db"


UPDATE = ["update", "p", replace()]
ASK = ["ask", question()]


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_host_killed_between_answer_and_result_loses_no_answer(
    tmp_path: Path, language: str
) -> None:
    """The answer was acknowledged, so it is there; the call that waited for it is interrupted."""
    store = tool(tmp_path, language)
    with trio.fail_after(SECONDS), killed(tmp_path, "answered", UPDATE, ASK):
        async with opened(tmp_path, history=store, resume=True) as session:
            (found,) = await session.history.interactions("s")
            (call,) = await session.history.calls("s")
            assert session.panels() == ()
    assert (found.state, found.answers) == ("answered", {"a": "yes"})
    assert call.state == "interrupted"


async def test_a_host_killed_while_it_asks_leaves_an_interrupted_question(tmp_path: Path) -> None:
    """Nobody waits for an answer any more, and one that comes is told so."""
    store = tool(tmp_path)
    with trio.fail_after(SECONDS), killed(tmp_path, "asked", ASK):
        async with opened(tmp_path, history=store, resume=True) as session:
            (found,) = await session.history.interactions("s")
            assert session.questions() == ()
            with pytest.raises(raw_exec.RawExecError) as caught:
                await session.answer(
                    found.request_id,
                    expected_revision=found.revision,
                    idempotency_key="k",
                    answers={"a": "x"},
                )
    assert (found.state, caught.value.code) == ("interrupted", "interaction_interrupted")


async def test_a_host_killed_before_its_call_settled_has_committed_nothing_of_it(
    tmp_path: Path,
) -> None:
    """Panels commit with the result: what was only shown is gone, as the result is."""
    store = tool(tmp_path)
    with trio.fail_after(SECONDS), killed(tmp_path, "shown", UPDATE, ["wait", "gate"]):
        async with opened(tmp_path, history=store, resume=True) as session:
            (call,) = await session.history.calls("s")
            assert (session.panels(), call.state) == ((), "interrupted")


async def test_a_host_killed_after_the_result_loses_nothing(tmp_path: Path) -> None:
    """Question, answer, panel and call are as they were."""
    store = tool(tmp_path)
    with trio.fail_after(SECONDS), killed(tmp_path, "returned", UPDATE, ASK, UPDATE):
        async with opened(tmp_path, history=store, resume=True) as session:
            (found,) = await session.history.interactions("s")
            (call,) = await session.history.calls("s")
            assert session.panel(PANEL).revision == 2
            assert await steps(session, UPDATE) == [3]
    assert (found.state, call.state, call.is_error) == ("answered", "done", False)


async def test_sessions_have_separate_job_limits(tmp_path: Path) -> None:
    """Eight live ones in each; the ninth of one does not take the first of another."""
    write_config(tmp_path, ["builtin/process"])
    config = raw_exec.load_config(tmp_path / "config.json")
    start = {"action": "start", "command": "sleep 1000"}
    with trio.fail_after(SECONDS):
        async with raw_exec.open_runtime(config, cwd=tmp_path, spares=0) as runtime:
            async with runtime.open_session("one") as one, runtime.open_session("two") as two:
                started = [await one.dispatch("process", start) for _ in range(MAX_LIVE + 1)]
                elsewhere = await two.dispatch("process", start)
                history = one.history
            states = [job.state for job in await history.jobs("one")]
            assert runtime.statistics().live_trees <= 1  # the worker that asked
    assert [result.is_error for result in started] == [False] * MAX_LIVE + [True]
    assert started[-1].code == "process_unavailable"
    assert started[-1].content[0]["value"]["error"]["code"] == "too_many_jobs"
    assert not elsewhere.is_error
    assert states == ["stopped"] * MAX_LIVE


async def test_a_session_can_be_open_once(tmp_path: Path) -> None:
    """In one runtime as in two; after its end it can be taken up, but not made anew."""
    store = tool(tmp_path)
    config = raw_exec.load_config(tmp_path / "config.json")
    codes = []
    with trio.fail_after(SECONDS):
        async with (
            raw_exec.open_runtime(config, cwd=tmp_path, history=store) as runtime,
            raw_exec.open_runtime(config, cwd=tmp_path, history=store) as other,
        ):
            async with runtime.open_session("s"):
                for second in (runtime, other):
                    with pytest.raises(HistoryError) as caught:
                        async with second.open_session("s", resume=True):
                            pass
                    codes.append(caught.value.code)
            with pytest.raises(HistoryError) as caught:
                async with other.open_session("s"):
                    pass
            codes.append(caught.value.code)
            async with other.open_session("s", resume=True) as session:
                assert session.id == "s"
    assert codes == ["session_in_use", "session_in_use", "session_exists"]


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda path: path.write_bytes(b"x" * 5000), "history_corrupt"),
        (lambda path: path.chmod(0o644), "history_not_private"),
        (lambda path: _newer(path), "history_version"),
    ],
    ids=["damaged", "readable by others", "newer"],
)
async def test_a_history_that_can_not_be_used_is_refused_when_the_runtime_opens(
    tmp_path: Path, spoil: Any, code: str
) -> None:
    """Before any call, and although no session was asked for yet."""
    store = tool(tmp_path)
    config = raw_exec.load_config(tmp_path / "config.json")
    with trio.fail_after(SECONDS):
        async with opened(tmp_path, history=store):
            pass
        spoil(store)
        with pytest.raises(HistoryError) as caught:
            async with raw_exec.open_runtime(config, cwd=tmp_path, history=store):
                pass
    assert (caught.value.code, str(store) in str(caught.value)) == (code, True)


def _newer(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 999")


async def test_what_is_not_used_costs_no_thread_and_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runtime without sessions opens no history, which is what starts the thread."""
    store = tool(tmp_path)
    opens: list[object] = []
    monkeypatch.setattr(keeper, "open_history", opens.append)
    config = raw_exec.load_config(tmp_path / "config.json")
    with trio.fail_after(SECONDS):
        async with raw_exec.open_runtime(config, cwd=tmp_path) as runtime:
            result = await runtime.dispatch("t", {"steps": []})
    assert (result.is_error, opens, store.exists()) == (False, [], False)
