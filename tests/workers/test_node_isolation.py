"""What a plugin can do to its own bridge, and what then still holds."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from typing import Any

import pytest

from raw_exec.wire import Failed, Loaded, LoadFailed, Pong, Result

PATCHES = {
    "array methods": """
        for (const name of ['push', 'slice', 'map', 'join', 'concat', 'forEach', 'indexOf'])
          Array.prototype[name] = () => { throw new Error('patched'); };
        Array.prototype[Symbol.iterator] = () => { throw new Error('patched'); };
    """,
    "JSON": "JSON.stringify = () => 'forged'; JSON.parse = () => ({ t: 'close' });",
    "toJSON": "Object.prototype.toJSON = () => 'forged';",
    "promises": """
        Promise.prototype.then = function () { throw new Error('patched'); };
        Promise.prototype.constructor = null;
        Promise.resolve = () => 1;
        globalThis.Promise = null;
    """,
    "fs": """
        import fs from 'node:fs';
        import module from 'node:module';
        for (const name of ['readSync', 'writeSync', 'readFileSync', 'statSync', 'readdirSync'])
          fs[name] = () => { throw new Error('patched'); };
        module.syncBuiltinESMExports();
    """,
    "process": """
        process.exit = process.reallyExit = process.nextTick = process.cwd =
          process.getActiveResourcesInfo = process.eventNames =
            () => { throw new Error('patched'); };
        process.memoryUsage = null;
    """,
    "buffers": """
        for (const name of Object.getOwnPropertyNames(Buffer.prototype))
          try { Buffer.prototype[name] = () => { throw new Error('patched'); }; } catch {}
        Buffer.alloc = Buffer.allocUnsafe = Buffer.allocUnsafeSlow = Buffer.byteLength = null;
        for (const name of ['set', 'subarray', 'copyWithin', 'slice'])
          Object.getPrototypeOf(Uint8Array.prototype)[name] = null;
    """,
    "strings": """
        for (const name of Object.getOwnPropertyNames(String.prototype))
          if (name !== 'constructor' && name !== 'length')
            String.prototype[name] = () => { throw new Error('patched'); };
        String.fromCharCode = null;
    """,
    "functions": """
        Function.prototype.call = Function.prototype.apply = Function.prototype.bind =
          () => { throw new Error('patched'); };
        Reflect.apply = Reflect.ownKeys = Reflect.getPrototypeOf = Reflect.defineProperty = null;
        Object.keys = Object.freeze = Object.getPrototypeOf = null;
        Array.isArray = () => false; Number.isSafeInteger = Number.isFinite = () => true;
        Math.floor = () => 5;
    """,
    "setters on Object.prototype": """
        for (const name of ['t', 'id', 'value', 'state', 'kind', 'name', 'message', 'next', 'list',
                            'item', 'path', 'args', 'cwd', 'cause', 'count', 'text'])
          Object.defineProperty(Object.prototype, name, {
            __proto__: null,
            set() { throw new Error('set ' + name); },
            get() { return 'forged'; },
            configurable: true,
          });
    """,
    "timers": """
        globalThis.setImmediate = globalThis.setTimeout = globalThis.setInterval =
          globalThis.queueMicrotask = () => { throw new Error('patched'); };
    """,
    "errors": """
        Error.prepareStackTrace = () => { throw new Error('patched'); };
        Error.captureStackTrace = null;
        globalThis.Error = null;
        Error = null;
    """,
    "collections": """
        for (const C of [Map, Set, WeakMap])
          for (const name of Object.getOwnPropertyNames(C.prototype))
            try { C.prototype[name] = null; } catch {}
        globalThis.AbortController = globalThis.AbortSignal = null;
        globalThis.Atomics = globalThis.SharedArrayBuffer = globalThis.Float64Array = null;
    """,
}


@pytest.mark.parametrize("name", PATCHES)
def test_a_patched_builtin_changes_no_frame(node: Callable[..., Any], name: str) -> None:
    """S02, S03: captured before the plugin was there."""
    imports = "\n".join(line for line in PATCHES[name].splitlines() if "import " in line)
    patch = "\n".join(line for line in PATCHES[name].splitlines() if "import " not in line)
    worker = node(f"""
        {imports}
        let calls = 0;
        export function handler(args) {{
          if (calls++ === 0) {{ {patch} }}
          if (args.fail) throw {{ message: 'thrown' }};
          return {{ list: [args.text, 1.5, -7, 70000], long: args.long, none: null }};
        }}
    """)
    args = {"text": "hé", "long": "x" * 5000}
    expected = {"list": ["hé", 1.5, -7, 70000], "long": "x" * 5000, "none": None}
    first = worker.call(args)
    assert isinstance(first, Result), first
    assert first.value == expected
    assert first.state.builtins_changed or name in UNWATCHED
    assert worker.value(args) == expected
    failed = worker.failure({"fail": True})
    assert failed.error.message == "thrown"
    assert worker.value(args) == expected


UNWATCHED = {"collections"}
"""Patches of what is too much to compare after every call; no frame depends on it."""


def test_a_plugin_that_breaks_node_itself_ends_its_worker(node: Callable[..., Any]) -> None:
    """S02: setters on Array.prototype stop Node's own event loop; no hang and no forged frame."""
    worker = node("""
        export function handler() {
          for (let i = 0; i < 100; i++)
            Object.defineProperty(Array.prototype, i, {
              __proto__: null, set() { throw new Error('set'); }, configurable: true,
            });
          return 1;
        }
    """)
    with pytest.raises(EOFError):
        worker.call()
    assert worker.wait() == 70


def test_a_patch_is_reported_and_a_clean_handler_is_not(node: Callable[..., Any]) -> None:
    """S02: the pair, so that a report means something."""
    worker = node("""
        export function handler(args) { if (args.patch) JSON.parse = () => 1; return 1; }
    """)
    assert worker.call({}).state.builtins_changed == 0
    assert worker.call({"patch": True}).state.builtins_changed == 1


LEFT = {
    "timers": [
        "setInterval(() => {}, 1e6)",
        "setTimeout(() => {}, 1e6).unref()",
        "setInterval(() => {}, 1e6).unref()",
        "globalThis.i = setImmediate(function again() { setImmediate(again) })",
    ],
    "listeners": [
        "process.on('message', () => {})",
        "process.on('exit', () => {})",
        "process.on('uncaughtException', () => {})",
        "process.once('SIGTERM', () => {})",
    ],
    "env_changed": [
        "process.env.PATH = 'x'",
        "delete process.env.HOME",
        "Object.defineProperty(process.env, 'A', "
        "{ value: 'b', writable: true, enumerable: true, configurable: true })",
        "Object.assign(process.env, { A: '1' })",
    ],
    "cwd_changed": ["process.chdir('/')"],
    "builtins_changed": ["process.exitCode = 3", "Object.prototype.polluted = 1"],
    "threads": [
        "new (await import('node:worker_threads')).Worker('setInterval(() => {}, 1e6)', "
        "{ eval: true }).unref()"
    ],
    "children": [
        "(await import('node:child_process')).spawn('/bin/sleep', ['1000'], "
        "{ stdio: 'ignore', detached: true }).unref()"
    ],
    "fds": ["for (let i = 0; i < 9; i++) (await import('node:fs')).openSync('/dev/null')"],
    "handles": [
        "(await import('node:net')).createServer().listen({ path: '\\0raw-exec-' + process.pid })"
    ],
}


@pytest.mark.parametrize(
    ("what", "source"), [(what, source) for what in LEFT for source in LEFT[what]]
)
def test_what_a_handler_leaves_is_reported(
    node: Callable[..., Any], what: str, source: str
) -> None:
    """S06 to S15: counted above the state after the import."""
    worker = node(f"export async function handler(args) {{ if (args) {{ {source} }} return 1; }}")
    assert worker.call(0).state.names == ()
    # Descriptors are counted every eighth call.
    states = [worker.call(index == 0).state for index in range(8)]
    assert any(getattr(state, what) > 0 for state in states), states
    if what != "fds":
        assert getattr(states[0], what) > 0


CLEAN_HANDLERS = [
    "await new Promise((r) => setTimeout(r, 1))",
    "await (await import('node:fs/promises')).readFile('/etc/passwd')",
    "console.log('x'); console.error('y')",
    "const t = setTimeout(() => {}, 1e6).unref(); clearTimeout(t)",
    "process.env.PATH; Object.keys(process.env); ({ ...process.env })",
    "await (await import('node:timers/promises')).setTimeout(1, null, { ref: false })"
    ".constructor; await new Promise((r) => setTimeout(r, 5))",
    "context.signal.addEventListener('abort', () => {})",
    "await new Promise((r) => { const w = new WT.Worker('1', { eval: true }); w.on('exit', r); })",
    "CP.spawnSync('/bin/true')",
    "await new Promise((r) => CP.spawn('/bin/true').on('close', r))",
    "await Promise.allSettled([Promise.reject(new Error('handled'))])",
]


@pytest.mark.parametrize("source", CLEAN_HANDLERS)
def test_a_handler_that_cleans_up_leaves_nothing(node: Callable[..., Any], source: str) -> None:
    """Our choice: a well-behaved plugin keeps its warm worker."""
    worker = node(f"""
        import WT from 'node:worker_threads';
        import CP from 'node:child_process';
        export async function handler(args, context) {{ {source}; return 1; }}
    """)
    for _ in range(10):
        event = worker.call()
        assert isinstance(event, Result), event
        assert event.state.names == ()


def test_what_the_import_made_is_not_held_against_a_call(node: Callable[..., Any]) -> None:
    """Contract: the baseline is taken after the load."""
    worker = node("""
        setInterval(() => {}, 1e6);
        process.on('exit', () => {});
        process.env.MINE = '1';
        export function handler() { return process.env.MINE; }
    """)
    event = worker.call()
    assert (event.value, event.state.names) == ("1", ())


def test_what_a_spare_imported_is_not_held_against_a_call(start: Callable[..., Any]) -> None:
    """Contract: also in a worker that was made ready before it had a plugin."""
    worker = start("node")
    assert worker.ping() == Pong(1)
    event = worker.load("""
        import fs from 'node:fs';
        for (let i = 0; i < 20; i++) fs.openSync('/dev/null');
        export function handler(args) {
          if (args) for (let i = 0; i < 9; i++) fs.openSync('/dev/null');
          return 1;
        }
    """)
    assert isinstance(event, Loaded), event
    for _ in range(17):
        assert worker.call(0).state.names == ()
    worker.call(1)
    # Descriptors are counted every eighth call.
    assert any(worker.call(0).state.fds > 0 for _ in range(8))


UNCAUGHT = [
    "setTimeout(() => { throw new RangeError('loose'); }, 0); await new Promise(() => {})",
    "Promise.reject(new RangeError('loose')); await new Promise(() => {})",
    "Promise.reject(new RangeError('loose')); return 1",
    "queueMicrotask(() => { throw new RangeError('loose'); }); return 1",
    "process.nextTick(() => { throw new RangeError('loose'); }); return 1",
    "setImmediate(() => { throw new RangeError('loose'); }); return 1",
]


@pytest.mark.parametrize("source", UNCAUGHT)
def test_an_uncaught_error_fails_the_call_that_caused_it(
    node: Callable[..., Any], source: str
) -> None:
    """S08: attributed to A, and A's worker says that it is not clean."""
    worker = node(f"""
        export async function handler(args) {{ if (args) return 2; {source} }}
    """)
    event = worker.failure()
    assert (event.error.kind, event.error.name) == ("threw", "RangeError")
    assert event.state.names != ()
    assert worker.value(1) == 2


def test_nothing_of_the_plugin_runs_while_idle(node: Callable[..., Any]) -> None:
    """S06: the worker is blocked, so a timer can't fire between two calls."""
    worker = node("""
        let ticks = 0;
        export async function handler(args) {
          if (args === 'arm') { setInterval(() => { ticks++; console.log('tick'); }, 1); return 0; }
          return ticks;
        }
    """)
    worker.value("arm")
    for index in range(1000, 1200):
        worker.write(worker.connection.send_ping(id=index))
        worker.receive()
    assert worker.log()[0].count("tick") <= 1


def test_microtasks_of_a_call_are_over_before_the_next_begins(node: Callable[..., Any]) -> None:
    """S08: what was queued by A runs in A."""
    worker = node("""
        const seen = [];
        let call = 0;
        export async function handler() {
          const mine = ++call;
          let p = Promise.resolve();
          for (let i = 0; i < 50; i++) p = p.then(() => {});
          p.then(() => seen.push([mine, call]));
          return seen.slice();
        }
    """)
    assert worker.value() == []
    assert worker.value() == [[1, 1]]
    assert worker.value() == [[1, 1], [2, 2]]


def test_an_abort_reaches_the_signal_with_its_reason(node: Callable[..., Any]) -> None:
    """A02: context.signal communicates abort."""
    worker = node("""
        export function handler(args, context) {
          return new Promise((resolve) => {
            context.signal.addEventListener('abort', () => {
              const { name, message } = context.signal.reason;
              resolve([context.signal.aborted, name, message]);
            });
            console.log('waiting');
          });
        }
    """)
    for _ in range(2):
        call_id = worker.start_call()
        worker.wait_for_log("waiting")
        worker.abort(call_id, "timeout")
        event = worker.receive()
        assert isinstance(event, Result)
        assert event.value == [True, "AbortError", "timeout"]
        assert event.state.names == ()


def test_a_signal_first_looked_at_after_the_abort_is_aborted(node: Callable[..., Any]) -> None:
    """Our choice: the signal is made on the first look, and must not have missed anything."""
    worker = node("""
        export async function handler(args, context) {
          console.log('waiting');
          for (;;) {
            await new Promise((r) => setTimeout(r, 1));
            if (globalThis.looks > 500)
              return [context.signal.aborted, context.signal.reason.message];
            globalThis.looks = (globalThis.looks ?? 0) + 1;
          }
        }
    """)
    call_id = worker.start_call()
    worker.wait_for_log("waiting")
    worker.abort(call_id, "cancelled")
    assert worker.receive().value == [True, "cancelled"]


def test_a_late_abort_is_ignored(node: Callable[..., Any]) -> None:
    """Contract: late control frames are ignored by id."""
    worker = node("""
        export async function handler(args, context) {
          await new Promise((r) => setTimeout(r, args));
          return context.signal.aborted;
        }
    """)
    call_id = worker.start_call(1)
    late = worker.connection.send_abort(id=call_id, reason="late")
    assert worker.receive().value is False
    worker.write(late + late[:3], worker.control)
    worker.start_call(20)
    worker.write(late[3:], worker.control)
    assert worker.receive().value is False


def test_a_promise_that_never_settles_keeps_the_worker_alive(node: Callable[..., Any]) -> None:
    """M09: so that the timeout applies, not exit code 13."""
    worker = node("""
        export function handler(args) {
          if (args) return 1;
          console.log('waiting');
          return new Promise(() => {});
        }
    """)
    call_id = worker.start_call()
    worker.wait_for_log("waiting")
    worker.abort(call_id)
    with pytest.raises(TimeoutError):
        receive_briefly(worker)


def receive_briefly(worker: Any) -> None:
    """Give the worker 0.2 s to be wrong; a right one is never waited for."""
    if not select.select([worker.replies], [], [], 0.2)[0]:
        raise TimeoutError
    worker.receive()


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("process.exit(0)", 0),
        ("process.exit(3)", 3),
        ("process.reallyExit(5)", 5),
        ("process.kill(process.pid, 'SIGKILL'); for (;;);", -9),
        ("process.abort()", -6),
    ],
)
def test_an_exit_during_a_call_is_just_an_exit(
    node: Callable[..., Any], source: str, code: int
) -> None:
    """P08, P09: no result, and the code kept for the supervisor to name."""
    worker = node(f"export async function handler() {{ {source}; }}")
    with pytest.raises(EOFError):
        worker.call()
    assert worker.wait() == code


def test_a_top_level_await_on_nothing_does_not_end_the_process(start: Callable[..., Any]) -> None:
    """S21: the supervisor's load limit decides."""
    worker = start("node")
    entry = worker.write_plugin(
        "console.log('importing'); await new Promise(() => {}); export function handler() {}"
    )
    worker.write(worker.connection.send_load(entry=entry, name="x", kind="handler"))
    worker.wait_for_log("importing")
    with pytest.raises(TimeoutError):
        receive_briefly(worker)


def test_an_import_that_throws_later_than_it_resolves_is_a_failed_import(
    start: Callable[..., Any],
) -> None:
    """Our choice: a rejection in the same turn belongs to the load."""
    event = start("node").load("queueMicrotask(() => { throw 1; }); export function handler() {}")
    assert isinstance(event, LoadFailed)


def test_logs_written_to_a_full_pipe_are_whole(node: Callable[..., Any]) -> None:
    """W02: synchronous, so nothing is left for the next call."""
    worker = node("""
        export function handler(args) {
          for (let i = 0; i < args; i++) console.log('x'.repeat(999));
          return 1;
        }
    """)
    worker.start_call(1000)
    chunks: list[bytes] = []

    def drain() -> None:
        while sum(map(len, chunks)) < 1_000_000:
            chunks.append(os.read(worker._out, 65536))

    reader = threading.Thread(target=drain)
    reader.start()
    event = worker.receive()
    reader.join(10)
    assert isinstance(event, Result)
    assert b"".join(chunks) == (b"x" * 999 + b"\n") * 1000


def test_a_handler_cannot_be_told_apart_by_a_failed_call(node: Callable[..., Any]) -> None:
    """Our choice: an ordinary failure leaves the worker as clean as a result."""
    worker = node(
        "export async function handler(args) { if (args) throw new Error('x'); return 1; }"
    )
    assert isinstance(failed := worker.call(1), Failed)
    assert failed.state.names == ()
    assert worker.value(0) == 1
