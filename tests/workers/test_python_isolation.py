"""What a plugin can do to its own Python worker, and what then still holds."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

from raw_exec.wire import Result

PATCHES = {
    "builtins": """
        import builtins
        names = vars(builtins)
        def bad(*args, **kwargs): raise SystemError("patched")
        for name in ("open", "len", "type", "isinstance", "dict", "list", "str", "sum", "min",
                     "max", "vars", "getattr", "setattr", "repr", "enumerate", "zip", "memoryview"):
            names[name] = bad
    """,
    "os": """
        import os
        def bad(*args, **kwargs): raise SystemError("patched")
        for name in ("read", "write", "stat", "listdir", "getcwd", "open", "close", "dup",
                     "_exit", "getpid", "waitid"):
            setattr(os, name, bad)
    """,
    "modules": """
        import sys
        sys.modules["json"] = sys.modules["os"] = sys.modules["_signal"] = None
        sys.meta_path.clear(); sys.path.clear(); sys.path_hooks.clear()
    """,
    "streams": "import sys; sys.stdout = sys.stderr = sys.stdin = None",
    "everything in sys.modules": """
        import sys
        for name in list(sys.modules):
            if name not in ("sys", "builtins"): del sys.modules[name]
    """,
}


@pytest.mark.parametrize("name", PATCHES)
def test_a_patched_module_changes_no_frame(python: Callable[..., Any], name: str) -> None:
    """S02: references are taken before the plugin is there."""
    body = textwrap.indent(textwrap.dedent(PATCHES[name]), "    ")
    worker = python(f"""
calls = []
def patch():
    pass
{body}
def handler(args, context):
    if not calls:
        calls.append(1)
        patch()
    if "fail" in args:
        raise ValueError("raised")
    return {{"list": [args["text"], 1.5, -7, None], "pair": (1, 2)}}
""")
    args = {"text": "hé" * 100}
    expected = {"list": ["hé" * 100, 1.5, -7, None], "pair": [1, 2]}
    first = worker.call(args)
    assert isinstance(first, Result), first
    assert (first.value, first.state.builtins_changed) == (expected, 1)
    assert worker.value(args) == expected
    assert worker.failure({"fail": 1}).error.message == "raised"
    assert worker.value(args) == expected


def test_a_clean_handler_reports_no_change(python: Callable[..., Any]) -> None:
    """S02: the pair, so that a report means something."""
    worker = python("""
        import json
        def handler(args, context):
            import string
            return json.loads(json.dumps(args))
    """)
    for _ in range(40):
        event = worker.call({"a": 1})
        assert (event.value, event.state.names) == ({"a": 1}, ())


LEFT = {
    "timers": ["import signal; signal.setitimer(signal.ITIMER_REAL, 1000)"],
    "threads": [
        "import threading, time; "
        "threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()"
    ],
    "children": [
        "import subprocess; keep.append(subprocess.Popen(['/bin/sleep', '1000']))",
        "import os; os.fork() or os.execv('/bin/sleep', ['sleep', '1000'])",
    ],
    "fds": ["keep.extend(open('/dev/null') for _ in range(9))"],
    "env_changed": ["import os; os.environ['PATH'] = 'x'", "import os; del os.environ['HOME']"],
    "cwd_changed": ["import os; os.chdir('/')"],
    "listeners": [
        "import signal; signal.signal(signal.SIGTERM, lambda *a: None)",
        "import sys; sys.settrace(lambda *a: None)",
        "import sys; sys.setprofile(lambda *a: None)",
        "import atexit; atexit.register(print)",
    ],
    "builtins_changed": [
        "import builtins; builtins.open = 1",
        "import builtins; builtins.extra = 1",
        "import sys; sys.excepthook = print",
        "import sys; sys.modules['os'] = sys",
        "import sys; sys.meta_path.insert(0, object())",
        "import sys; sys.path.append('/x')",
    ],
}


@pytest.mark.parametrize(
    ("what", "source"), [(what, source) for what in LEFT for source in LEFT[what]]
)
def test_what_a_handler_leaves_is_reported(
    python: Callable[..., Any], what: str, source: str
) -> None:
    """S09 to S13: counted above the state after the import."""
    worker = python(f"""
keep = []
def handler(args, context):
    if args:
        {source}
    return 1
""")
    assert worker.call(0).state.names == ()
    event = worker.call(1)
    assert isinstance(event, Result), event
    assert getattr(event.state, what) > 0, event.state
    assert getattr(worker.call(0).state, what) > 0


def test_what_the_import_made_is_not_held_against_a_call(python: Callable[..., Any]) -> None:
    """Contract: the baseline is taken after the load, of threads as of the rest."""
    worker = python("""
        import threading, time
        def rest(): threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
        rest()
        kept = [open("/dev/null") for _ in range(9)]
        def handler(args, context):
            context.signal
            if args: rest()
            return 1
    """)
    for _ in range(20):
        assert worker.call(0).state.names == ()
    assert worker.call(1).state.threads == 1
    assert worker.call(0).state.threads == 1


CLEAN_HANDLERS = [
    "print('x'); print('y', file=__import__('sys').stderr)",
    "__import__('subprocess').run(['/bin/true'], check=True)",
    "open('/etc/passwd').close()",
    "t = __import__('threading').Thread(target=int); t.start(); t.join()",
    "dict(__import__('os').environ)",
    "context.signal.add_callback(int)",
    "context.signal.wait(0.001)",
]


@pytest.mark.parametrize("prefix", ["def", "async def"])
@pytest.mark.parametrize("source", CLEAN_HANDLERS)
def test_a_handler_that_cleans_up_leaves_nothing(
    python: Callable[..., Any], prefix: str, source: str
) -> None:
    """Our choice: a well-behaved plugin keeps its warm worker."""
    worker = python(f"{prefix} handler(args, context):\n    {source}\n    return 1\n")
    for _ in range(20):
        event = worker.call()
        assert isinstance(event, Result), event
        assert event.state.names == ()


ASYNC = """
import asyncio, sys
left = []
async def forever():
    left.append("began")
    try:
        await asyncio.sleep(1000)
    finally:
        left.append("cancelled")
async def handler(args, context):
    if args == "task":
        left.append(asyncio.create_task(forever())); await asyncio.sleep(0)
    if args == "timer":
        asyncio.get_running_loop().call_later(0.001, left.append, "fired")
    if args == "task and raise":
        left.append(asyncio.create_task(forever())); await asyncio.sleep(0)
        raise ValueError("after the task")
    if args == "timer and exit":
        asyncio.get_running_loop().call_later(1000, int)
        sys.exit(3)
    if args == "raise":
        raise ValueError("nothing left")
    if args == "exit":
        sys.exit(3)
    if args == "thread":
        return await asyncio.to_thread(int, "5")
    await asyncio.sleep(0.002 if args == "wait" else 0)
    return [str(x) for x in left if isinstance(x, str)]
"""


def test_an_unfinished_task_is_cancelled_and_reported(python: Callable[..., Any]) -> None:
    """S08: nothing of call A goes on in call B."""
    worker = python(ASYNC)
    event = worker.call("task")
    assert (event.value, event.state.names) == (["began"], ("handles",))
    event = worker.call("wait")
    assert (event.value, event.state.names) == (["began", "cancelled"], ())


@pytest.mark.parametrize("how", ["task and raise", "timer and exit"])
def test_what_a_failed_call_leaves_in_the_loop_is_reported(
    python: Callable[..., Any], how: str
) -> None:
    """S08: an exception hides nothing, and the next call is not blamed."""
    worker = python(ASYNC)
    assert worker.failure(how).state.names == ("handles",)
    for with_nothing_left in ("raise", "exit"):
        assert worker.failure(with_nothing_left).state.names == ()
    event = worker.call("wait")
    assert event.state.names == ()
    assert event.value == (["began", "cancelled"] if "task" in how else [])


@pytest.mark.parametrize("prefix", ["def", "async def"])
def test_what_a_failed_handler_held_is_let_go_with_it(
    python: Callable[..., Any], prefix: str
) -> None:
    """Our choice: nothing of ours keeps the frames of an exception until a collection."""
    worker = python(f"""
        import gc
        gc.disable()
        {prefix} handler(args, context):
            held = [open("/dev/null") for _ in range(9)]
            raise ValueError(len(held))
    """)
    for _ in range(3):
        assert worker.failure().state.names == ()


def test_a_timer_left_in_the_loop_never_fires(python: Callable[..., Any]) -> None:
    """S06: its loop is closed."""
    worker = python(ASYNC)
    assert worker.call("timer").state.names == ("handles",)
    assert worker.value("wait") == []


def test_threads_of_the_loop_end_with_the_call(python: Callable[..., Any]) -> None:
    """Our choice: asyncio.to_thread is no reason to lose a warm worker."""
    worker = python(ASYNC)
    for _ in range(3):
        event = worker.call("thread")
        assert (event.value, event.state.names) == (5, ())


def test_an_awaitable_of_a_plain_function_is_awaited(python: Callable[..., Any]) -> None:
    """Contract: def or async def, by what is returned."""
    worker = python("""
        async def later(args): return args
        def handler(args, context): return later(args)
    """)
    for _ in range(2):
        event = worker.call([1])
        assert (event.value, event.state.names) == ([1], ())


WAITING = {
    "wait": """
        def handler(args, context):
            print("waiting")
            return [context.signal.wait(20), context.signal.aborted, context.signal.reason]
    """,
    "callback": """
        import threading
        def handler(args, context):
            done = threading.Event()
            context.signal.add_callback(done.set)
            print("waiting")
            return [done.wait(20), context.signal.aborted, context.signal.reason]
    """,
    "async callback": """
        import asyncio
        async def handler(args, context):
            done = asyncio.Event()
            context.signal.add_callback(done.set)
            print("waiting")
            await asyncio.wait_for(done.wait(), 20)
            return [True, context.signal.aborted, context.signal.reason]
    """,
    "poll": """
        import time
        def handler(args, context):
            print("waiting")
            while not context.signal.aborted: time.sleep(0.001)
            called = []
            context.signal.add_callback(lambda: called.append(1))
            return [called == [1], context.signal.aborted, context.signal.reason]
    """,
}


@pytest.mark.parametrize("how", WAITING)
def test_an_abort_reaches_the_signal_with_its_reason(python: Callable[..., Any], how: str) -> None:
    """A02: for sync and async handlers alike, call after call."""
    worker = python(WAITING[how])
    for _ in range(3):
        call_id = worker.start_call()
        worker.wait_for_log("waiting")
        worker.abort(call_id, "timeout")
        event = worker.receive()
        assert (event.value, event.state.names) == ([True, True, "timeout"], ())


def test_a_thread_that_can_not_start_is_tried_again(python: Callable[..., Any]) -> None:
    """Fault: no memory for a stack; the next look at the signal begins to read the pipe."""
    worker = python("""
        import _thread
        def handler(args, context):
            if args == "starved":
                _thread.stack_size(1 << 47)
                try:
                    context.vars.list()
                except RuntimeError as error:
                    return str(error)
                finally:
                    _thread.stack_size(0)
            print("waiting")
            return [context.signal.wait(5), context.signal.reason]
    """)
    event = worker.call("starved")
    assert (event.value, event.state.names) == ("can't start new thread", ())
    call_id = worker.start_call()
    worker.wait_for_log("waiting")
    worker.abort(call_id, "timeout")
    event = worker.receive()
    assert (event.value, event.state.names) == ([True, "timeout"], ())


def test_a_late_abort_is_ignored(python: Callable[..., Any]) -> None:
    """Contract: late control frames are ignored by id."""
    worker = python("def handler(args, context): return context.signal.wait(args)")
    call_id = worker.start_call(0.001)
    late = worker.connection.send_abort(id=call_id, reason="late")
    assert worker.receive().value is False
    worker.write(late, worker.control)
    assert worker.value(0.05) is False


def test_a_signal_kept_after_its_call_stays_as_it_was(python: Callable[..., Any]) -> None:
    """Our choice: a kept context can't watch a later call."""
    worker = python("""
        kept = []
        def handler(args, context):
            kept.append(context)
            return [kept[0].signal.aborted, kept[0].signal.reason]
    """)
    assert worker.value() == [False, None]
    assert worker.value() == [True, "the call has ended"]


def test_the_plugin_sees_the_standard_library_and_nothing_of_the_worker(
    python: Callable[..., Any],
) -> None:
    """Contract: what is visible is documented in main.py."""
    worker = python("""
        import sys
        def handler(args, context):
            return {
                "ours": [n for n in sys.modules if n.split(".")[0] in ("workers", "msgpack")],
                "main": vars(sys.modules["__main__"]).get("__file__"),
                "plugin": __name__,
                "path": [p for p in sys.path if "msgpack" in p or p.endswith("site-packages")],
                "argv": sys.argv,
            }
    """)
    assert worker.value() == {
        "ours": [],
        "main": None,
        "plugin": "raw_plugin",
        "path": [],
        "argv": [""],
    }


def test_modules_beside_the_plugin_and_its_packages_can_be_imported(
    start: Callable[..., Any], tmp_path: Any
) -> None:
    """Contract: the plugin's folder and its site-packages are on sys.path."""
    worker = start("python")
    entry = worker.write_plugin("""
        import beside, packaged
        def handler(args, context): return [beside.NAME, packaged.NAME]
    """)
    folder = os.path.dirname(entry)
    os.mkdir(os.path.join(folder, "site-packages"))
    for path, name in (("beside.py", "a"), ("site-packages/packaged.py", "b")):
        with open(os.path.join(folder, path), "w") as file:
            file.write(f"NAME = {name!r}")
    worker.write(worker.connection.send_load(entry=entry, name="x", kind="handler"))
    worker.receive()
    assert worker.value() == ["a", "b"]


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("import os; os._exit(3)", 3),
        ("import os; os.kill(os.getpid(), 9)", -9),
        ("import os; os.abort()", -6),
        ("import os; os.kill(os.getpid(), 64)", -64),
    ],
)
def test_an_exit_during_a_call_is_just_an_exit(
    python: Callable[..., Any], source: str, code: int
) -> None:
    """P08, P09, K16: no result, and the code kept for the supervisor to name."""
    worker = python(f"def handler(args, context):\n    {source}\n")
    with pytest.raises(EOFError):
        worker.call()
    assert worker.wait() == code
