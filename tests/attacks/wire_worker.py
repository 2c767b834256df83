"""Drives the supervisor's side of the protocol against a scripted, hostile worker."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trio

from raw_exec.errors import RawExecError, RemoteWireError
from raw_exec.pool.calls import CallRequest
from raw_exec.pool.worker import Worker
from raw_exec.sandbox import SandboxPlan, host_plan, program_files
from tests.attacks import oracle
from tests.attacks.lab import GRACE_MS, Lab
from tests.attacks.model import Case, Ran

__all__ = ["PYTHON", "RESULT_BYTES", "drive_wire"]

RESULT_BYTES = 1 << 20
MAX_BODY = RESULT_BYTES + 64 * 1024
"""Longest frame body that a worker may send: the result and room for the rest."""
_LOAD_MS, _CALL_MS = 1500, 800

PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable

PRELUDE = """\
import os, struct, sys, time

def enc(v):
    '''A msgpack encoder that does not check what it is given.'''
    if v is None: return b'\\xc0'
    if v is True: return b'\\xc3'
    if v is False: return b'\\xc2'
    if isinstance(v, int):
        return b'\\xd3' + struct.pack('>q', v) if v < 0 else b'\\xcf' + struct.pack('>Q', v)
    if isinstance(v, float): return b'\\xcb' + struct.pack('>d', v)
    if isinstance(v, str):
        v = v.encode('utf-8', 'surrogatepass')
        return b'\\xdb' + struct.pack('>I', len(v)) + v
    if isinstance(v, Raw): return v.data
    if isinstance(v, bytes): return b'\\xc6' + struct.pack('>I', len(v)) + v
    if isinstance(v, dict): v = Pairs(v.items())
    if isinstance(v, Pairs):
        return b'\\xdf' + struct.pack('>I', len(v)) + b''.join(enc(k) + enc(x) for k, x in v)
    return b'\\xdd' + struct.pack('>I', len(v)) + b''.join(map(enc, v))

class Pairs(list):
    '''A map with its keys as given, twice if so.'''

class Raw:
    def __init__(self, data): self.data = data

def push(data, fd=4):
    while data:
        data = data[os.write(fd, data):]

def frame(body): return struct.pack('>I', len(body)) + body
def send(message): push(frame(enc(message)))
def take(n):
    data = b''
    while len(data) < n:
        more = os.read(3, n - len(data))
        if not more: os._exit(0)
        data += more
    return data
ID = 0
def receive():
    '''Take a message; the call's number, which can't be guessed, is kept in ID.'''
    global ID
    body = take(struct.unpack('>I', take(4))[0])
    at = body.find(b'\\xa2id')
    if at >= 0:
        head, rest = body[at + 3], body[at + 4:]
        size = {0xcc: 1, 0xcd: 2, 0xce: 4, 0xcf: 8}.get(head, 0)
        ID = int.from_bytes(rest[:size], 'big') if size else head
    return body
def hang(): time.sleep(3600)

READY = {'t': 'ready', 'version': 1, 'runtime': 'python', 'runtime_version': '3', 'pid': 1}
LOADED = {'t': 'loaded', 'exports': ['handler']}
STATE = dict.fromkeys(('timers', 'handles', 'listeners', 'threads', 'children', 'fds',
                       'rss_bytes', 'env_changed', 'cwd_changed', 'builtins_changed'), 0)
def result(value, **more): return {'t': 'result', 'id': ID, 'value': value, 'state': STATE, **more}
def failed(**more):
    error = {'kind': 'threw', 'name': 'E', 'message': 'm', 'stack': '', **more}
    return {'t': 'failed', 'id': ID, 'error': error, 'state': STATE}
def begin():
    '''Be an honest worker until the call has come.'''
    send(READY); receive(); send(LOADED); receive()
GOOD = {'content': [{'type': 'text', 'text': 'good'}]}
MAX_BODY = %d
"""


async def drive_wire(lab: Lab, case: Case, ran: Ran) -> None:
    """Start the script as a worker, load, call; the outcome is what the exception says."""
    folder = lab.world.base / "wire"
    folder.mkdir(exist_ok=True)
    script = folder / f"{case.tool}.py"
    script.write_text(PRELUDE % MAX_BODY + "\n" + textwrap.dedent(case.body))
    try:
        await _drive(lab, case, ran, script)
    except RemoteWireError as exc:
        ran.code, ran.text = "worker_crashed", str(exc)
    except RawExecError as exc:
        ran.code, ran.text = exc.code, str(exc)
        ran.facts["detail"] = dict(getattr(exc, "detail", {}))


@contextmanager
def _timed(ran: Ran, what: str, limit_ms: int) -> Iterator[None]:
    """Note a step that is not over, well or badly, when its time is."""
    start = trio.current_time()
    try:
        yield
    finally:
        took = (trio.current_time() - start) * 1000
        allowed = limit_ms + GRACE_MS + oracle.EXTRA_MS * oracle.allowance()
        if took > allowed:
            ran.late.append(f"U2: {what} took {took:.0f} ms; {allowed:.0f} ms are allowed")


async def _drive(lab: Lab, case: Case, ran: Ran, script: Path) -> None:
    plan = SandboxPlan(
        profile="wire",
        read=("/usr", str(script.parent)),
        write=(),
        network="none",
        processes=False,
        tier=lab.tier,
        isolation="fresh",
        effects="declared",
        sandbox=True,
        memory_bytes=192 << 20,
        scratch_bytes=1 << 20,
    )
    with _timed(ran, "the start", _LOAD_MS):
        worker = await Worker.start(
            lab.runtime.launcher,
            lab.nursery,
            label="wire",
            kind="exec",
            argv=[PYTHON, "-I", "-S", str(script)],
            env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
            cwd="/",
            plan=host_plan(plan, runtime=program_files(PYTHON), snapshot_dir=None),
            load_ms=_LOAD_MS,
            result_bytes=RESULT_BYTES,
            log_bytes=64 * 1024,
            memory_bytes=plan.memory_bytes,
        )
    try:
        with _timed(ran, "the load", _LOAD_MS):
            await worker.load(entry="/none/index.py", name="wire", kind="handler", load_ms=_LOAD_MS)
        arguments = case.calls[0].get("arguments", {})
        for _ in range(int(case.calls[0].get("times", 1))):
            with _timed(ran, "the call", _CALL_MS):
                reply = await worker.call(
                    CallRequest(
                        arguments=arguments,
                        cwd="/",
                        tool_call_id="wire",
                        max_output_bytes=65536,
                        call_ms=_CALL_MS,
                        grace_ms=GRACE_MS,
                    )
                )
            ran.facts["usable"] = worker.usable
            ran.report = {"=value": reply.value}
            if reply.failure is not None:
                ran.code = reply.failure.kind
                ran.text = reply.failure.message
            ran.facts["stdout"] = reply.stdout.text
    finally:
        with _timed(ran, "the end", 0):
            await worker.end()
