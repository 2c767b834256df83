"""Corpus §4: memory and CPU; who is out of memory is told so, and nobody else notices."""

# ruff: noqa: E501 - sources of handlers are data, and break where their language wants

from __future__ import annotations

from typing import Any

import trio

from tests.attacks import oracle
from tests.attacks.lab import Lab
from tests.attacks.model import TIERS, Case, Gap, Ran

__all__ = ["CASES"]

_MEMORY = ("memory_limit",)


def _evidence(ran: Ran) -> str | None:
    detail = ran.last.detail
    if detail.get("limit") == "memory_bytes" and detail.get("evidence"):
        return None
    return f"no evidence of the limit in {dict(detail)}"


async def _beside(lab: Lab, case: Case, ran: Ran) -> None:
    """Call, and meanwhile call another plugin, which answers in its time."""
    done = trio.Event()

    async def attack() -> None:
        result = await lab.call(case.tool, seconds=case.timeout, w=lab.facts)
        ran.results.append(result)
        done.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(attack)
        while not done.is_set():
            ran.late += await oracle.benign(lab, lab.bystander(case.language))
            await trio.sleep(0.05)
    result = ran.last
    ran.code = "ok" if not result.is_error else str(result.code)
    ran.report, ran.text = ran.reports[-1] or {}, result.text


def _bomb(id_: str, title: str, language: str, body: str, **more: Any) -> Case:
    return Case(id_, title, language, body, codes=_MEMORY, check=_evidence, timeout=20.0, **more)


def _endless(id_: str, title: str, language: str, body: str) -> Case:
    return Case(id_, title, language, body, codes=("timeout",), timeout=0.6)


CASES: tuple[Case, ...] = (
    _bomb(
        "M01.array",
        "JavaScript heap bomb of arrays",
        "js",
        "const a = []; for (;;) a.push(new Array(1e5).fill({}));",
    ),
    _bomb(
        "M01.objects",
        "JavaScript heap bomb of objects",
        "js",
        "let a = null; for (;;) a = { a, b: {} };",
    ),
    _bomb(
        "M01.strings",
        "JavaScript heap bomb of strings",
        "js",
        "const a = []; for (let i = 0; ; i++) a.push(('x' + i).repeat(1000).split('').join('y'));",
    ),
    _bomb(
        "M01.map",
        "JavaScript heap bomb of a map in async steps",
        "js",
        "const m = new Map(); for (let i = 0; ; i++) { m.set(i, [i, {}]); if (i % 1e5 === 0) await null; }",
    ),
    _bomb(
        "M02.buffer",
        "buffers off the heap",
        "js",
        "const a = []; for (;;) a.push(Buffer.alloc(1e7, 1));",
    ),
    _bomb(
        "M02.arraybuffer",
        "array buffers off the heap",
        "js",
        "const a = []; for (;;) a.push(new Uint8Array(1e7).fill(1));",
    ),
    _bomb(
        "M02.shared",
        "shared array buffers",
        "js",
        "const a = []; for (;;) a.push(new Uint8Array(new SharedArrayBuffer(1e7)).fill(1));",
    ),
    _bomb(
        "M02.wasm",
        "WebAssembly memory",
        "js",
        "const a = []; for (;;) { const m = new WebAssembly.Memory({ initial: 160 }); new Uint8Array(m.buffer).fill(1); a.push(m); }",
    ),
    _bomb(
        "M02.worker",
        "heap of worker threads",
        "js",
        "for (let i = 0; i < 8; i++) new wt.Worker('const a = []; setInterval(() => a.push(Buffer.alloc(1e7, 1)), 1)', { eval: true }).on('error', (e) => { fail(e) });\nlet fail; await new Promise((_, no) => { fail = no; });",
    ),
    _bomb(
        "M03.bytes",
        "Python heap bomb of bytearrays",
        "py",
        "x = [bytearray(10**7) for _ in iter(int, 1)]",
    ),
    _bomb(
        "M03.objects",
        "Python heap bomb of small objects",
        "py",
        "x = None\nwhile True:\n    x = [x, {}]",
    ),
    _bomb("M03.string", "Python string that doubles", "py", "x = 'x'\nwhile True:\n    x += x"),
    _bomb("M03.one", "one allocation beyond the limit", "py", "bytearray(1 << 40)"),
    Case(
        "M03.shared",
        "anonymous shared mappings, memory files and /dev/shm",
        "py",
        """
        import mmap
        kept, total = [], 0
        try:
            while total < 1 << 30:
                kept.append(mmap.mmap(-1, 16 << 20))
                kept[-1].write(b'x' * (16 << 20))
                total += 16 << 20
        except (OSError, ValueError) as error:
            report['shared'] = name_of(error)
        report['=shared'] = total
        """,
        codes=("ok", "memory_limit", "worker_crashed"),
        check=lambda ran: (
            f"{ran.report['=shared']} shared bytes"
            if ran.report.get("=shared", 0) > 220 << 20
            else None
        ),
        timeout=5.0,
    ),
    Case(
        "M03.memfd",
        "memory files",
        "py",
        """
        total, kept = 0, []
        try:
            while total < 1 << 30:
                kept.append(os.memfd_create('m'))
                total += os.write(kept[-1], b'x' * (4 << 20))
        except OSError as error:
            report['memfd'] = name_of(error)
        report['=bytes'] = total
        """,
        codes=("ok", "memory_limit", "worker_crashed"),
        check=lambda ran: (
            f"{ran.report['=bytes']} bytes in memory files"
            if ran.report.get("=bytes", 0) > 220 << 20
            else None
        ),
        timeout=5.0,
    ),
    Case(
        "M03.memfd-procs",
        "memory files with processes granted",
        "py",
        """
        total, kept = 0, []
        try:
            while total < 600 << 20:
                kept.append(os.memfd_create('m'))
                total += os.write(kept[-1], b'x' * (4 << 20))
        except OSError as error:
            report['memfd'] = name_of(error)
        report['sum'] = 'DENIED' if total <= 220 << 20 else 'ok:%d MB' % (total >> 20)
        """,
        profile="procs",
        codes=("ok", "memory_limit", "worker_crashed"),
        gaps=(Gap("memory-sum", ("baseline", "namespaces"), ("sum",)),),
        timeout=5.0,
    ),
    Case(
        "M03.children",
        "memory of many children with processes granted",
        "py",
        """
        read_end, write_end = os.pipe()
        for _ in range(6):
            if os.fork() == 0:
                try:
                    x = [bytes(bytearray(b'x') * (4 << 20)) for _ in range(25)]
                    os.write(write_end, b'1')
                finally:
                    time.sleep(3)
                    os._exit(0)
        time.sleep(1.5)
        os.set_blocking(read_end, False)
        try:
            full = len(os.read(read_end, 100))
        except OSError:
            full = 0
        report['sum'] = 'DENIED' if full <= 2 else 'ok:%d children of 100 MB each' % full
        """,
        profile="procs",
        codes=("ok", "memory_limit", "worker_crashed"),
        gaps=(Gap("memory-sum", ("baseline", "namespaces"), ("sum",), sometimes=True),),
        timeout=6.0,
    ),
    Case(
        "M03.shm",
        "fill /dev/shm and the private temporary folders",
        "py",
        """
        total = 0
        for place in ('/dev/shm', '/tmp', '/var/tmp', scratch):
            try:
                for index in range(100):
                    write('%s/%s%d' % (place, w['mark'], index), b'x' * (4 << 20))
                    total += 4 << 20
            except OSError:
                pass
        report['=bytes'] = total
        """,
        codes=("ok", "worker_crashed", "output_limit"),
        check=lambda ran: (
            f"{ran.report['=bytes']} bytes fit" if ran.report.get("=bytes", 0) > 10 << 20 else None
        ),
        timeout=4.0,
    ),
    Case(
        "M05.py",
        "fill a thousand pipes",
        "py",
        """
        made = 0
        try:
            for _ in range(1000):
                read_end, write_end = os.pipe()
                os.set_blocking(write_end, False)
                os.write(write_end, b'x' * 65536)
                made += 1
        except OSError as error:
            report['pipes'] = name_of(error)
        report['=made'] = made
        grown = fcntl.fcntl(write_end, 1032)
        try:
            for size in range(17, 31):
                grown = fcntl.fcntl(write_end, 1031, 1 << size)
        except OSError as error:
            report['grow'] = name_of(error)
        report['=grown'] = grown
        for name in ('epoll_create1', 'inotify_init1'):
            attempt(name, lambda: [checked(getattr(L, name)(0)) for _ in range(2000)])
        attempt('eventfd', lambda: [os.eventfd(0) for _ in range(2000)])
        """,
        check=lambda ran: (
            f"{ran.report['=made']} pipes of up to {ran.report['=grown']} bytes"
            if ran.report["=made"] > 300 or ran.report["=grown"] > 1 << 20
            else None
        ),
    ),
    _endless("M06.js", "busy loop", "js", "for (;;);"),
    _endless("M06.py", "busy loop in Python", "py", "while True: pass"),
    _endless(
        "M06.regex",
        "one endless native call: a regular expression",
        "js",
        "/^(a+)+$/.test('a'.repeat(40) + '!');",
    ),
    _endless(
        "M06.native", "one endless native call that never checks signals", "py", "pow(3, 10**9)"
    ),
    _endless(
        "M06.finally",
        "swallow every exception",
        "py",
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
    ),
    _endless(
        "M07.micro",
        "busy microtasks",
        "js",
        "const f = () => Promise.resolve().then(f); await f();",
    ),
    _endless(
        "M07.tick",
        "busy next ticks",
        "js",
        "const f = () => process.nextTick(f); f(); await new Promise(() => {});",
    ),
    _endless(
        "M07.immediate",
        "busy immediates",
        "js",
        "const f = () => setImmediate(f); f(); await new Promise(() => {});",
    ),
    _endless(
        "M07.thread",
        "a busy worker thread and a blocked main one",
        "js",
        "new wt.Worker('for (;;);', { eval: true }); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);",
    ),
    _endless(
        "M07.pythread",
        "busy threads",
        "py",
        "def f():\n    while True: pass\nfor _ in range(4): threading.Thread(target=f, daemon=True).start()\nf()",
    ),
    _endless("M09.js", "a promise that never settles", "js", "await new Promise(() => {});"),
    _endless("M09.py", "sleep for ever", "py", "time.sleep(1e9)"),
    _endless(
        "M09.lock",
        "a lock that is never released",
        "py",
        "lock = threading.Lock(); lock.acquire(); lock.acquire()",
    ),
    _endless(
        "M10.js",
        "one busy thread per processor",
        "js",
        "for (let i = 0; i < 8; i++) new wt.Worker('for (;;);', { eval: true }); await new Promise(() => {});",
    ),
    Case(
        "M10.share",
        "use more than one processor's time",
        "js",
        """
  const before = process.cpuUsage(), start = process.hrtime.bigint();
  for (let i = 0; i < 4; i++) new wt.Worker('for (;;);', { eval: true });
  await sleep(900);
  const used = process.cpuUsage(before), passed = Number(process.hrtime.bigint() - start) / 1e3;
  const share = (used.user + used.system) / passed;
  report['cpu'] = share > 1.1 ? 'ok:' + share.toFixed(1) + ' processors' : 'DENIED';
""",
        # How many processors there are, and who else wants them, decides what is seen.
        gaps=(Gap("cpu-share", tuple(TIERS), ("cpu",), sometimes=True),),
        timeout=3.0,
    ),
    Case(
        "M12.py",
        "rewrite the quota again and again with fsync",
        "py",
        """
        while True:
            with open(scratch + '/io', 'wb') as file:
                file.write(b'x' * (6 << 20))
                os.fsync(file.fileno())
        """,
        codes=("timeout",),
        timeout=0.8,
        drive=_beside,
    ),
    Case(
        "M12.share",
        "write far more than any quota to a granted folder",
        "py",
        """
        total = 0
        for _ in range(8):
            with open(w['work'] + '/io', 'wb') as file:
                total += file.write(b'x' * (4 << 20))
                file.flush()
                os.fsync(file.fileno())
        report['written'] = 'ok:%d MB' % (total >> 20)
        """,
        gaps=(Gap("io-share", tuple(TIERS), ("written",)),),
        timeout=5.0,
        drive=_beside,
    ),
    Case(
        "M13.js",
        "a million timers",
        "js",
        "for (let i = 0; i < 1e6; i++) setInterval(() => {}, 0);\nreturn json({});",
        codes=("ok", "timeout", "memory_limit"),
        timeout=3.0,
    ),
    Case(
        "M15.js",
        "leak a megabyte on each call",
        "js",
        "(globalThis.leak ??= []).push(Buffer.alloc(1 << 20, 1)); return json({ '=n': leak.length, '=rss': process.memoryUsage.rss() });",
        calls=({},) * 120,
        check=lambda ran: (
            None
            if max(r["=n"] for r in ran.reports) < 60
            else f"a worker went on with {max(r['=n'] for r in ran.reports)} MB of growth"
        ),
    ),
    Case(
        "M15.py",
        "leak a megabyte on each call in Python",
        "py",
        "sys.leak = getattr(sys, 'leak', [])\nsys.leak.append(b'x' * (1 << 20))\nreport['=n'] = len(sys.leak)",
        calls=({},) * 120,
        check=lambda ran: (
            None
            if max(r["=n"] for r in ran.reports) < 60
            else f"a worker went on with {max(r['=n'] for r in ran.reports)} MB of growth"
        ),
    ),
)
