"""What both workers do alike."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import pytest

from raw_exec.errors import RemoteWireError
from raw_exec.wire import (
    MAX_VALUES,
    ConnectionState,
    Described,
    Failed,
    Loaded,
    LoadFailed,
    Pong,
    Result,
)
from raw_exec.wire.requests import CLOSE

VECTORS = Path(__file__).parents[1] / "vectors" / "wire"
BOTH = pytest.mark.parametrize("runtime", ["node", "python"])

ECHO = {
    "node": "export async function handler(args, context) { return args; }",
    "python": "def handler(args, context):\n    return args\n",
}
DESCRIPTORS = {
    "node": """
        export function handler() { return null; }
        export function validateArgs(args) { return args.bad ? 'bad: ' + args.bad : undefined; }
        export function describeEffects(args, { cwd }) {
          if (args.later) return Promise.resolve({});
          if (args.thenable) return { then() {} };
          if (args.fail) throw new RangeError('no effects');
          return { files: [{ path: cwd + '/x', operation: 'write' }] };
        }
    """,
    "python": """
        def handler(args, context): pass
        def validate_args(args): return f"bad: {args['bad']}" if "bad" in args else None
        async def later(): pass
        def describe_effects(args, options):
            if "later" in args: return later()
            if "thenable" in args: return type("T", (), {"__await__": lambda self: iter(())})()
            if "fail" in args: raise ValueError("no effects")
            return {"files": [{"path": options["cwd"] + "/x", "operation": "write"}]}
    """,
}


@BOTH
def test_values_survive_the_way_in_and_out(load: Callable[..., Any], runtime: str) -> None:
    """Contract: the same vectors for every codec."""
    worker = load(runtime, ECHO[runtime])
    for number, vector in enumerate(json.loads((VECTORS / "values.json").read_text()), 1):
        fields = {
            "cwd": "/",
            "tool_call_id": "c",
            "max_output_bytes": 1,
            "result_bytes": 1 << 24,
            "scratch": "/",
        }
        worker.connection.send_call(id=number, args=None, **fields)
        head = b"\x88" + b"".join(map(msgpack.packb, ["t", "call", "id", number, "args"]))
        tail = b"".join(msgpack.packb(part) for item in fields.items() for part in item)
        body = head + bytes.fromhex(vector["bytes"]) + tail
        worker.write(struct.pack(">I", len(body)) + body)
        event = worker.receive()
        assert isinstance(event, Result), (vector["name"], event)
        assert repr(event.value) == repr(vector["value"]), vector["name"]
        assert event.state.names == (), vector["name"]


@BOTH
@pytest.mark.parametrize(
    "text",
    ["a" * 65535, "a" * 65536, "é" * 30_000, "😀" * 70_000, "a" * 3_000_000, "漢" * 400_000],
    ids=len,
)
def test_long_texts_survive(load: Callable[..., Any], runtime: str, text: str) -> None:
    """Contract: whatever the width of its characters and the size of its header."""
    worker = load(runtime, ECHO[runtime])
    assert worker.value({"text": text}) == {"text": text}
    assert worker.value({"text": text[:7]}) == {"text": text[:7]}


@BOTH
def test_requests_fed_byte_by_byte_and_together_are_answered_in_order(
    load: Callable[..., Any], runtime: str
) -> None:
    """Our choice: no chunk size means anything to a worker."""
    worker = load(runtime, ECHO[runtime])
    for byte in worker.connection.send_ping(id=1):
        worker.write(bytes([byte]))
    assert worker.receive() == Pong(1)
    worker.write(worker.connection.send_ping(id=2) + CLOSE)
    assert worker.receive() == Pong(2)
    assert worker.wait() == 0


@BOTH
def test_a_spare_answers_a_ping_before_it_loads(start: Callable[..., Any], runtime: str) -> None:
    """Contract: ping before load, for spares."""
    worker = start(runtime)
    worker.write(worker.connection.send_ping(id=1))
    assert worker.receive() == Pong(1)
    assert worker.load(ECHO[runtime]) == Loaded(("handler",))
    worker._last_id = 1
    assert worker.value([1]) == [1]


@BOTH
def test_close_and_the_end_of_the_pipe_end_the_worker_with_0(
    start: Callable[..., Any], runtime: str
) -> None:
    """Contract: close → exit 0; so does a supervisor that is gone."""
    worker = start(runtime)
    worker.write(worker.connection.send_close())
    assert worker.wait() == 0
    other = start(runtime)
    os.close(other.requests)
    other.open_fds.remove(other.requests)
    assert other.wait() == 0


@BOTH
def test_a_broken_frame_of_the_supervisor_ends_the_worker(
    start: Callable[..., Any], runtime: str
) -> None:
    """Our choice: exit code 70, and the reason in the log."""
    worker = start(runtime)
    worker.write(b"\xff\xff\xff\xff")
    assert worker.wait() == 70
    assert "4294967295 bytes" in worker.log()[1]


@BOTH
def test_descriptors_are_called_synchronously(load: Callable[..., Any], runtime: str) -> None:
    """Contract: a value, undefined as nil, a throw as data, a promise as not_synchronous."""
    worker = load(runtime, DESCRIPTORS[runtime], "descriptor")
    assert worker.describe("validateArgs", {}) == Described(1, None)
    assert worker.describe("validateArgs", {"bad": 1}) == Described(2, "bad: 1")
    effects = {"files": [{"path": "/srv/x", "operation": "write"}]}
    assert worker.describe("describeEffects", {}) == Described(3, effects)
    for args, kind in (
        ({"later": 1}, "not_synchronous"),
        ({"thenable": 1}, "not_synchronous"),
        ({"fail": 1}, "threw"),
    ):
        event = worker.describe("describeEffects", args)
        assert isinstance(event, Failed)
        assert event.error.kind == kind


@BOTH
def test_a_descriptor_worker_reports_what_it_exports(
    start: Callable[..., Any], runtime: str
) -> None:
    """Contract: exports under the contract's names, whatever the spelling."""
    event = start(runtime).load(DESCRIPTORS[runtime], "descriptor")
    assert event == Loaded(("handler", "validateArgs", "describeEffects"))


LOAD_FAILURES = [
    ("node", "syntax error(", "import_failed", "SyntaxError"),
    ("node", "throw new TypeError('x')", "import_failed", "TypeError"),
    ("node", "throw undefined", "import_failed", "undefined"),
    ("node", "import './missing.mjs'", "import_failed", "Error"),
    ("node", "import { nothing } from 'node:fs'", "import_failed", "SyntaxError"),
    ("node", "Promise.reject(new RangeError('late'))", "import_failed", "RangeError"),
    ("node", "export const other = 1", "missing_handler", "TypeError"),
    ("node", "export default function handler() {}", "missing_handler", "TypeError"),
    ("node", "export const handler = 1", "bad_export", "TypeError"),
    ("node", "export function handler() {}\nexport const validateArgs = null", "bad_export", None),
    ("python", "syntax error(", "import_failed", "SyntaxError"),
    ("python", "raise TypeError('x')", "import_failed", "TypeError"),
    ("python", "import missing", "import_failed", "ModuleNotFoundError"),
    ("python", "raise SystemExit(3)", "import_failed", "SystemExit"),
    ("python", "raise KeyboardInterrupt", "import_failed", "KeyboardInterrupt"),
    ("python", "other = 1", "missing_handler", "TypeError"),
    ("python", "handler = 1", "bad_export", "TypeError"),
    ("python", "def handler(a, c): pass\nvalidate_args = 1", "bad_export", "TypeError"),
]


@pytest.mark.parametrize(("runtime", "source", "kind", "name"), LOAD_FAILURES)
def test_a_plugin_that_cannot_be_used_says_precisely_why(
    start: Callable[..., Any], runtime: str, source: str, kind: str, name: str | None
) -> None:
    """X30: a precise load error each; the worker then closes in order."""
    worker = start(runtime)
    event = worker.load(source)
    assert isinstance(event, LoadFailed)
    assert event.error.kind == kind
    assert name in (None, event.error.name)
    worker.write(worker.connection.send_close())
    assert worker.wait() == 0


TOO_MUCH = {
    "node": """
        export function handler(args) {
          if (args.text) return args.text.repeat(args.n);
          return new Array(args.n).fill(0);
        }
    """,
    "python": """
        def handler(args, context):
            return args["text"] * args["n"] if "text" in args else [0] * args["n"]
    """,
}


@BOTH
def test_a_result_is_capped_in_encoded_bytes(load: Callable[..., Any], runtime: str) -> None:
    """V11, V14: exactly the limit passes; four-byte characters count four."""
    worker = load(runtime, TOO_MUCH[runtime])
    header = 5 if runtime == "node" else 3
    assert isinstance(worker.call({"text": "a", "n": 10_000}, 10_000 + header), Result)
    assert worker.failure({"text": "a", "n": 10_001}, result_bytes=10_000).error.kind == "too_large"
    assert worker.failure({"text": "😀", "n": 2501}, result_bytes=10_000).error.kind == "too_large"
    assert isinstance(worker.call({"text": "😀", "n": 2490}, 10_000), Result)
    huge = worker.failure({"text": "a", "n": 300_000_000}, result_bytes=10_000)
    assert huge.error.kind == "too_large"


@BOTH
def test_a_result_is_capped_in_values(load: Callable[..., Any], runtime: str) -> None:
    """V13: as many values as the supervisor's decoder takes."""
    worker = load(runtime, TOO_MUCH[runtime])
    assert worker.value({"n": MAX_VALUES - 1}) == [0] * (MAX_VALUES - 1)
    assert worker.failure({"n": MAX_VALUES}).error.kind == "too_large"
    assert worker.failure({"n": 10_000_000}).error.kind == "too_large"


FORGE = {
    "node": """
        import fs from 'node:fs';
        export function handler(args) {
          fs.writeSync(4, Buffer.from(args.frame, 'hex'));
          return 'real';
        }
    """,
    "python": """
        import os
        def handler(args, context):
            os.write(4, bytes.fromhex(args["frame"]))
            return "real"
    """,
}
STATE = dict.fromkeys(
    [
        "timers",
        "handles",
        "listeners",
        "threads",
        "children",
        "fds",
        "rss_bytes",
        "env_changed",
        "cwd_changed",
        "builtins_changed",
    ],
    0,
)


def frame_of(message: dict[str, Any]) -> str:
    body = msgpack.packb(message)
    return (struct.pack(">I", len(body)) + body).hex()


@BOTH
def test_a_forged_result_wins_once_and_the_real_one_ends_the_worker(
    load: Callable[..., Any], runtime: str
) -> None:
    """W04: documented: first wins, second is a violation."""
    worker = load(runtime, FORGE[runtime])
    forged = frame_of({"t": "result", "id": 1, "value": "forged", "state": STATE})
    event = worker.call({"frame": forged})
    assert isinstance(event, Result)
    assert event.value == "forged"
    with pytest.raises(RemoteWireError):
        worker.receive()
    assert worker.connection.state is ConnectionState.ERROR


@BOTH
@pytest.mark.parametrize("frame", ["00", "ffffffff", "0000000100", "00000001c1", "0000000180"])
def test_rubbish_on_the_replies_pipe_is_a_violation(
    load: Callable[..., Any], runtime: str, frame: str
) -> None:
    """W03: the call fails and the connection is unusable."""
    worker = load(runtime, FORGE[runtime])
    with pytest.raises(RemoteWireError):
        worker.call({"frame": frame})
    assert worker.connection.state is ConnectionState.ERROR


LOGS = {
    "node": """
        export function handler(args) {
          console.log('{"t":"result","id":1,"value":"forged"}');
          console.error('to stderr');
          process.stdout.write('no newline');
          return 'real';
        }
    """,
    "python": """
        import os, sys
        def handler(args, context):
            print('{"t":"result","id":1,"value":"forged"}')
            print("to stderr", file=sys.stderr)
            sys.stdout.write("no newline")
            return "real"
    """,
}


@BOTH
def test_what_a_handler_prints_is_in_the_logs_before_its_result(
    load: Callable[..., Any], runtime: str
) -> None:
    """W01: captured as output, never parsed as protocol."""
    worker = load(runtime, LOGS[runtime])
    event = worker.call()
    assert isinstance(event, Result)
    assert (event.value, event.state.names) == ("real", ())
    out, err = worker.log()
    assert out == '{"t":"result","id":1,"value":"forged"}\nno newline'
    assert err == "to stderr\n"


CLOSES = {
    "node": """
        export function handler() {
          process.stdout.destroy();
          process.stderr.end();
          console.log('x');
          console.error('y');
          return 1;
        }
    """,
    "python": """
        import os
        def handler(args, context):
            os.close(1); os.close(2)
            return 1
    """,
}


@BOTH
def test_a_handler_that_closes_its_logs_still_returns(
    load: Callable[..., Any], runtime: str
) -> None:
    """W19: closed logs lose text and nothing else (libuv itself aborts without fds 1 and 2)."""
    assert load(runtime, CLOSES[runtime]).value() == 1


@BOTH
def test_a_handler_that_closes_the_channel_is_seen_at_once(
    load: Callable[..., Any], runtime: str
) -> None:
    """W18: the end of the pipe, then of the process."""
    source = {
        "node": "import fs from 'node:fs';\nexport function handler() { fs.closeSync(4); }",
        "python": "import os\ndef handler(a, c): os.close(4)\n",
    }
    worker = load(runtime, source[runtime])
    with pytest.raises(EOFError):
        worker.call()
    assert worker.wait() == 0


ENVELOPES = [
    {"error": {"code": "timeout"}},
    {"t": "result", "id": 1},
    {"__proto__": {"admin": True}, "constructor": 1},
    {"text": "\x1b]52;c;x\x07\u202e"},
]


@BOTH
@pytest.mark.parametrize("value", ENVELOPES, ids=lambda value: next(iter(value)))
def test_values_that_look_like_ours_stay_data(
    load: Callable[..., Any], runtime: str, value: Any
) -> None:
    """V10, V24, V25: data only."""
    assert load(runtime, ECHO[runtime]).value(value) == value
