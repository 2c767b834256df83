"""The blocking facade: same outcomes, from any thread, and nothing left."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
import trio

import raw_exec
import raw_exec.blocking
from raw_exec import ConfigError
from raw_exec.blocking import RuntimeClosed

from .toolsets import write_facade_config

pytestmark = pytest.mark.usefixtures("nothing_left")


def _comparable(result: raw_exec.ToolResult) -> dict[str, object]:
    told = result.as_dict()
    for name in ("elapsed_ms", "usage", "tool_call_id"):
        del told[name]
    return told


def _wait_for(path: Path) -> int:
    """Return the process ID that a handler wrote, once it has."""
    while not path.exists() or not path.read_text():
        time.sleep(0.005)  # another process's state has no event
    return int(path.read_text())


def test_results_are_those_of_the_native_runtime(
    config: raw_exec.Config, tmp_path: Path, cache: Path
) -> None:
    """Same results; outcomes, refusals and definitions alike."""
    calls = [("echo", {"text": "a"}), ("echo", {"text": 1}), ("nothing", {})]

    async def native() -> tuple[object, ...]:
        async with raw_exec.open_runtime(config, cwd=tmp_path, cache_dir=cache) as runtime:
            registry = runtime.registry
            results = [_comparable(await registry.dispatch(*call)) for call in calls]
            return registry.names, registry.definitions(), registry.cache_key, results

    with raw_exec.blocking.open_runtime(config, cwd=tmp_path, cache_dir=cache) as runtime:
        registry = runtime.registry
        found = (
            registry.names,
            registry.definitions(),
            registry.cache_key,
            [_comparable(registry.dispatch(*call)) for call in calls],
        )
        assert runtime.statistics().calls_in_flight == 0
    assert found == trio.run(native)


def test_calls_of_many_threads_have_their_own_results(config, tmp_path, cache) -> None:
    """Safe from several threads."""
    with (
        raw_exec.blocking.open_runtime(config, cwd=tmp_path, cache_dir=cache) as runtime,
        ThreadPoolExecutor(8) as threads,
    ):
        texts = [f"call {i}" for i in range(64)]
        results = threads.map(
            lambda text: runtime.registry.dispatch("echo", {"text": text}).text, texts
        )
        assert list(results) == texts


def test_an_error_of_opening_is_raised_and_the_thread_ends(config, tmp_path) -> None:
    """Errors are the native ones, not wrapped."""
    with pytest.raises(ConfigError) as caught:
        raw_exec.blocking.open_runtime(config, cwd=tmp_path / "missing")
    assert caught.value.code
    assert [t.name for t in threading.enumerate() if t.name == "raw-exec"] == []


def test_a_mistake_of_the_caller_is_raised_in_the_caller(config, tmp_path) -> None:
    """What the native dispatch raises, this raises."""
    with (
        raw_exec.blocking.open_runtime(config, cwd=tmp_path) as runtime,
        pytest.raises(ConfigError),
    ):
        runtime.registry.dispatch("echo", {"text": "a"}, max_output_bytes=-1)


def test_a_closed_runtime_refuses_calls_and_closes_again(config, tmp_path) -> None:
    """Closing twice is fine; a late call has a code."""
    runtime = raw_exec.blocking.open_runtime(config, cwd=tmp_path)
    session = runtime.open_session()
    runtime.close()
    runtime.close()
    session.close()
    with pytest.raises(RuntimeClosed) as caught:
        runtime.registry.dispatch("echo", {"text": "a"})
    assert caught.value.code == "runtime_closed"


def test_closing_ends_what_other_threads_wait_for(config, tmp_path) -> None:
    """No caller waits for ever, and no tree outlives the runtime."""
    runtime = raw_exec.blocking.open_runtime(config, cwd=tmp_path)
    caught: list[BaseException] = []

    def call() -> None:
        try:
            runtime.registry.dispatch("wait", {"name": "a"})
        except RuntimeClosed as exc:
            caught.append(exc)

    thread = threading.Thread(target=call)
    thread.start()
    pid = _wait_for(tmp_path / "started-a")
    tree = psutil.Process().children(recursive=True)
    runtime.close()
    thread.join(30)
    assert (len(caught), [p for p in tree if p.is_running()]) == (1, []), pid


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Take SIGINT as Python does: a shell starts what it puts aside with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_kills_the_tree_before_it_goes_on(config, tmp_path, interruptible) -> None:
    """Cancellation both ways: Ctrl-C in the waiting thread aborts the handler."""
    with raw_exec.blocking.open_runtime(config, cwd=tmp_path) as runtime:

        def interrupt() -> None:
            _wait_for(tmp_path / "started-a")
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            runtime.registry.dispatch("wait", {"name": "a"})
        thread.join()
        assert runtime.statistics().live_trees == 0
        assert runtime.registry.dispatch("echo", {"text": "still"}).text == "still"


def test_an_approver_runs_in_a_thread_and_may_use_the_runtime(tmp_path, cache) -> None:
    """A plain function may block, and even call; it holds up nobody else."""
    config = write_facade_config(tmp_path, rules=[{"match": "agent/wait", "effect": "ask"}])
    asked: list[object] = []

    def approve(request: raw_exec.ApprovalRequest) -> str:
        text = runtime.registry.dispatch("echo", {"text": request.identity}).text
        asked.append((text, threading.current_thread() is threading.main_thread()))
        return "deny"

    with raw_exec.blocking.open_runtime(
        config, cwd=tmp_path, cache_dir=cache, approve=approve
    ) as runtime:
        assert runtime.registry.dispatch("wait", {"name": "a"}).code == "approval_denied"
    assert asked == [("agent/wait", False)]


def test_a_session_keeps_its_calls_in_the_history(config, tmp_path, cache) -> None:
    """Sessions too; one is taken up again after the runtime was closed."""
    history = tmp_path / "history.db"
    for number in range(2):
        with (
            raw_exec.blocking.open_runtime(
                config, cwd=tmp_path, cache_dir=cache, history=history
            ) as runtime,
            runtime.open_session("s", resume=bool(number)) as session,
        ):
            assert session.dispatch("echo", {"text": "a"}).text == "a"
            assert (session.panels(), session.questions(), session.reminder()) == ((), (), "")
            assert session.submit_prompt("hello").allowed
            calls = session.run(lambda native: native.history.calls(native.id))
            assert len(calls) == number + 1


def test_it_works_under_a_running_asyncio_loop(config, tmp_path, cache) -> None:
    """Jupyter runs every cell inside a loop."""

    async def cell() -> str:
        runtime = raw_exec.blocking.open_runtime(config, cwd=tmp_path, cache_dir=cache)
        text = runtime.registry.dispatch("echo", {"text": "cell"}).text
        runtime.close()
        return text

    assert asyncio.run(cell()) == "cell"


def test_two_runtimes_are_open_at_the_same_time(config, tmp_path, cache) -> None:
    """Each has a loop of its own."""
    with (
        raw_exec.blocking.open_runtime(config, cwd=tmp_path, cache_dir=cache) as one,
        raw_exec.blocking.open_runtime(config, cwd=tmp_path, cache_dir=cache) as two,
    ):
        found = [r.registry.dispatch("echo", {"text": "x"}).text for r in (one, two, one)]
    assert found == ["x", "x", "x"]


def test_a_blocking_call_in_the_loop_itself_is_refused(config, tmp_path) -> None:
    """It would wait for itself for ever."""
    with raw_exec.blocking.open_runtime(config, cwd=tmp_path) as runtime:

        async def inside(_native: raw_exec.Runtime) -> None:
            runtime.statistics()

        with pytest.raises(RuntimeError, match="wait for itself"):
            runtime.run(inside)


def test_a_forked_child_is_refused_and_leaves_the_parent_alone(config, tmp_path, cache) -> None:
    """Fork safe; the child has a runtime of its own if it opens one."""
    with raw_exec.blocking.open_runtime(config, cwd=tmp_path, cache_dir=cache) as runtime:
        assert runtime.registry.dispatch("echo", {"text": "a"}).text == "a"
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                try:
                    runtime.registry.dispatch("echo", {"text": "child"})
                except RuntimeClosed:
                    runtime.close()
                    with raw_exec.blocking.open_runtime(
                        config, cwd=tmp_path, cache_dir=cache
                    ) as own:
                        if own.registry.dispatch("echo", {"text": "own"}).text == "own":
                            status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert runtime.registry.dispatch("echo", {"text": "b"}).text == "b"


_FORGETFUL = """
import os, sys, threading
import raw_exec, raw_exec.blocking
config = raw_exec.load_config(sys.argv[1])
runtime = raw_exec.blocking.open_runtime(config, cwd=sys.argv[2])
print(runtime.registry.dispatch("echo", {"text": "a"}).text)
print(runtime.statistics().launcher_pid, flush=True)
if sys.argv[3] == "busy":
    threading.Thread(
        target=runtime.registry.dispatch, args=("wait", {"name": "a"}), daemon=True
    ).start()
    while not os.path.exists(os.path.join(sys.argv[2], "started-a")):
        pass
if sys.argv[3] == "raise":
    raise SystemExit(3)
if sys.argv[3] == "fork":
    if os.fork() == 0:
        sys.stdin.read()  # outlives its parent
        os._exit(0)
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize(("how", "status"), [("end", 0), ("busy", 0), ("raise", 3)])
def test_a_program_that_forgets_to_close_ends_and_leaves_nothing(
    config, tmp_path, how: str, status: int
) -> None:
    """Exit safe."""
    (tmp_path / "tmp").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", _FORGETFUL, str(config.path), str(tmp_path), how],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
    )
    text, launcher = done.stdout.split()
    assert (done.returncode, text) == (status, "a"), done.stderr
    assert not psutil.pid_exists(int(launcher))
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_forked_child_does_not_keep_the_trees_of_a_dead_parent_alive(config, tmp_path) -> None:
    """The launcher must see the end of its parent through the child's copies."""
    process = subprocess.Popen(
        [sys.executable, "-c", _FORGETFUL, str(config.path), str(tmp_path), "fork"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.readline()
    launcher = psutil.Process(int(process.stdout.readline()))
    assert process.wait(30) == -signal.SIGKILL
    try:
        launcher.wait(30)
    except psutil.NoSuchProcess:
        pass
    process.stdin.close()  # the child ends
    process.stdout.read()
    process.stdout.close()
