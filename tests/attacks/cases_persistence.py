"""Corpus §7: call A poisons its worker, call B of the same plugin and another plugin look."""

# ruff: noqa: E501 - sources of handlers are data, and break where their language wants

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import psutil
import trio

from tests.attacks import oracle
from tests.attacks.lab import Lab
from tests.attacks.model import Case, Ran

__all__ = ["CASES"]

A, B = {"step": "a"}, {"step": "b"}


async def _with_bystander(lab: Lab, case: Case, ran: Ran) -> None:
    """A, B, then the other plugin; its view is in ``facts``."""
    for arguments in case.calls:
        result = await lab.call(case.tool, seconds=case.timeout, w=lab.facts, **arguments)
        ran.results.append(result)
    ran.code = "ok" if not ran.last.is_error else str(ran.last.code)
    ran.text, ran.report = ran.last.text, ran.reports[-1] or {}
    other = await lab.call(lab.bystander(case.language), seconds=5, w=lab.facts)
    ran.facts["other"] = other.content[0].get("value") if not other.is_error else other.text


async def _kill_idle(lab: Lab, case: Case, ran: Ran) -> None:
    """Whoever kills an idle worker costs nobody a call."""
    for _ in range(3):
        ran.results.append(await lab.call(case.tool, seconds=case.timeout, w=lab.facts))
        for process in lab.descendants():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        # Dead, whether the launcher has said so or not. One that is only dying may still
        # take a request with it, and then the outcome has to say that it is not known.
        while any(oracle.lives(process) for process in lab.descendants()):
            await trio.sleep(0)
        ran.results.append(await lab.call(case.tool, seconds=case.timeout, w=lab.facts))
    _conclude(ran)


async def _pause_between(lab: Lab, case: Case, ran: Ran) -> None:
    for arguments in case.calls:
        result = await lab.call(case.tool, seconds=case.timeout, w=lab.facts, **arguments)
        ran.results.append(result)
        await trio.sleep(0.1)
    _conclude(ran)


def _conclude(ran: Ran) -> None:
    failed = [result for result in ran.results if result.is_error]
    last = failed[0] if failed else ran.last
    ran.code, ran.text = (str(last.code), last.text) if failed else ("ok", last.text)
    ran.report = ran.reports[-1] or {}
    ran.facts["detail"] = [dict(result.detail) for result in failed]


def _clean_bystander(ran: Ran) -> str | None:
    other = ran.facts["other"]
    return f"the other plugin sees {other}" if other != {"wrong": []} else None


def _pristine(ran: Ran) -> str | None:
    """B saw nothing of A: its worker was retired, or everything was put back."""
    saw = ran.reports[-1].get("=saw")
    if saw not in (None, False, 0, [], ""):
        return f"call B saw {saw!r}"
    return _clean_bystander(ran)


def _attributed(ran: Ran) -> str | None:
    first, second = ran.results[0], ran.results[1]
    if second.is_error:
        return f"call B was blamed: {second.code} {second.text[:100]} (A: {first.code})"
    return None


def _pair(
    id_: str,
    title: str,
    language: str,
    poison: str,
    look: str,
    check: Callable[[Ran], str | None] = _pristine,
    **more: Any,
) -> Case:
    if language == "js":
        body = f"if (args.step === 'a') {{ {poison} }} else {{ {look} }}"
    else:
        lines = "\n".join("    " + line for line in poison.splitlines())
        others = "\n".join("    " + line for line in look.splitlines())
        body = f"if args['step'] == 'a':\n{lines}\nelse:\n{others}"
    given: dict[str, Any] = {"codes": ("ok",), **more}
    return Case(
        id_, title, language, body, calls=(A, B), check=check, drive=_with_bystander, **given
    )


def _scoped(id_: str, title: str, language: str, poison: str, look: str, **more: Any) -> Case:
    """What only the same plugin may see, and only in a worker that serves more than one call."""

    def check(ran: Ran) -> str | None:
        return _clean_bystander(ran) if ran.isolation == "pooled" else _pristine(ran)

    return _pair(id_, title, language, poison, look, check, **more)


def _scope(ran: Ran) -> str | None:
    values = [r["=n"] for r in ran.reports]
    wanted = [1, 2] if ran.isolation == "pooled" else [1, 1]
    if values != wanted:
        return f"calls counted {values}, not {wanted}"
    return _clean_bystander(ran)


CASES: tuple[Case, ...] = (
    Case(
        "S01.js",
        "module and global state",
        "js",
        "globalThis.poison = (globalThis.poison ?? 0) + 1; report['=n'] = globalThis.poison;",
        calls=(A, B),
        check=_scope,
        drive=_with_bystander,
    ),
    Case(
        "S01.py",
        "module state in Python",
        "py",
        "global N\nN = globals().get('N', 0) + 1\nreport['=n'] = N",
        calls=(A, B),
        check=_scope,
        drive=_with_bystander,
    ),
    _scoped(
        "S02.push",
        "replaced Array.prototype.push",
        "js",
        "Array.prototype.push = function () { return 'evil'; };",
        "report['=saw'] = [1].push(2) === 'evil';",
    ),
    _scoped(
        "S02.stringify",
        "replaced JSON.stringify and parse",
        "js",
        "JSON.stringify = () => '{}'; JSON.parse = () => ({});",
        "report['=saw'] = JSON.stringify([1]) !== '[1]';",
    ),
    _scoped(
        "S02.tojson",
        "toJSON on every object",
        "js",
        "Object.prototype.toJSON = () => 'evil';",
        "report['=saw'] = 'toJSON' in {};",
    ),
    _scoped(
        "S02.proto",
        "getters on Object.prototype for the bridge's own fields",
        "js",
        "for (const k of ['t', 'id', 'value', 'state', 'error', 'content', 'type']) Object.defineProperty(Object.prototype, k, { get() { return 'evil'; }, set() {}, configurable: true });",
        "report['=saw'] = ({}).id === 'evil';",
    ),
    _scoped(
        "S02.promise",
        "replaced Promise.prototype.then",
        "js",
        "const t = Promise.prototype.then; Promise.prototype.then = function (...a) { return t.apply(this, a); };",
        "report['=saw'] = !/native code/.test(Promise.prototype.then + '');",
    ),
    _scoped(
        "S02.buffer",
        "replaced Buffer and typed array methods",
        "js",
        "Buffer.from = () => { throw 1; }; Uint8Array.prototype.set = () => {}; DataView.prototype.setUint32 = () => {};",
        "try { Buffer.from('x'); } catch { report['=saw'] = 1; }",
    ),
    _scoped(
        "S02.iterator",
        "replaced array iteration",
        "js",
        "Array.prototype[Symbol.iterator] = function* () { yield 'evil'; };",
        "report['=saw'] = Array.prototype[Symbol.iterator].name === '';",
    ),
    _scoped(
        "S02.regexp",
        "replaced RegExp exec and String methods",
        "js",
        "RegExp.prototype.exec = () => null; String.prototype.slice = () => 'evil'; Function.prototype.call = () => 0;",
        "report['=saw'] = 'abc'.slice(1) === 'evil';",
    ),
    _scoped(
        "S02.open",
        "replaced builtins.open and len",
        "py",
        "import builtins\nbuiltins.open = lambda *a, **k: None\nbuiltins.len = lambda x: 7",
        "report['=saw'] = len([]) == 7",
    ),
    _scoped(
        "S02.isinstance",
        "replaced isinstance, type and dict in builtins",
        "py",
        "import builtins\nbuiltins.isinstance = lambda *a: True\nbuiltins.type = lambda *a: dict\nbuiltins.hasattr = lambda *a: True",
        "report['=saw'] = isinstance(1, str)",
    ),
    _scoped(
        "S02.oswrite",
        "replaced os.write and os.read",
        "py",
        "real = os.write\nos.write = lambda fd, data: real(fd, data[::-1])\nos.read = lambda *a: b''",
        "report['=saw'] = os.read.__name__ == '<lambda>'",
    ),
    _scoped(
        "S02.struct",
        "replaced struct.pack and msgpack",
        "py",
        "struct.pack = lambda *a: b'evil'\nfor name, m in list(sys.modules.items()):\n    if 'msgpack' in name:\n        for n in ('packb', 'unpackb', 'Packer', 'Unpacker'):\n            setattr(m, n, lambda *a, **k: b'evil')",
        "report['=saw'] = struct.pack('B', 1) == b'evil'",
    ),
    _scoped(
        "S02.bridge",
        "reach into the bridge through the frames",
        "py",
        "frame = sys._getframe(1)\nwhile frame is not None:\n    for name in list(frame.f_globals):\n        if name.islower() and not name.startswith('__'):\n            frame.f_globals[name] = None\n    frame = frame.f_back",
        "report['=saw'] = any(v is None for v in sys._getframe(1).f_globals.values())",
    ),
    _scoped(
        "S03.js",
        "replaced node:fs, its ESM view included",
        "js",
        "fs.readFileSync = () => 'evil'; fs.writeSync = () => 0; fs.readSync = () => 0; module.syncBuiltinESMExports();",
        "report['=saw'] = fs.readFileSync === undefined || fs.readFileSync('/dev/null', 'utf8') === 'evil';",
    ),
    _scoped(
        "S05.hook",
        "a module loader hook",
        "js",
        "try { module.register('data:text/javascript,export async function resolve(s,c,n){return n(s,c)}'); } catch { } globalThis.poison = 1;",
        "report['=saw'] = globalThis.poison;",
    ),
    _scoped(
        "S05.cache",
        "a poisoned require cache",
        "js",
        "const r = module.createRequire(import.meta.url); for (const k in r.cache) r.cache[k].exports = {}; module._load = () => ({}); module._extensions['.js'] = () => {};",
        "report['=saw'] = !String(module._load).includes('request');",
    ),
    _scoped(
        "S05.py",
        "poisoned sys.modules, import hooks and paths",
        "py",
        "sys.modules['json'] = None\nsys.meta_path.insert(0, object())\nsys.path_hooks.insert(0, lambda p: None)\nsys.path.insert(0, scratch)",
        "report['=saw'] = sys.modules.get('json', 1) is None",
    ),
    _pair(
        "S06.js",
        "timers left running",
        "js",
        "setInterval(() => { globalThis.poison = 1; console.log('A was here'); }, 5);",
        "await sleep(50); report['=saw'] = globalThis.poison;",
    ),
    _pair(
        "S06.immediate",
        "an endless chain of immediates",
        "js",
        "const f = () => { globalThis.poison = 1; setImmediate(f); }; setImmediate(f);",
        "await sleep(30); report['=saw'] = globalThis.poison;",
    ),
    _pair(
        "S06.tick",
        "an endless chain of ticks and microtasks, then return",
        "js",
        "const f = () => Promise.resolve().then(() => { globalThis.poison = 1; setTimeout(f, 0); }); f();",
        "await sleep(30); report['=saw'] = globalThis.poison;",
    ),
    _pair(
        "S06.unref",
        "an unreferenced timer",
        "js",
        "setInterval(() => { globalThis.poison = 1; }, 5).unref();",
        "await sleep(50); report['=saw'] = globalThis.poison;",
    ),
    _pair(
        "S07.js",
        "listeners left on process",
        "js",
        "for (const n of ['exit', 'beforeExit', 'uncaughtException', 'unhandledRejection', 'message', 'SIGTERM', 'warning']) process.on(n, () => {});",
        "report['=saw'] = process.listenerCount('message') + process.listenerCount('SIGTERM');",
    ),
    _pair(
        "S08.js",
        "an error thrown during the next call",
        "js",
        "setTimeout(() => { throw new Error('stray of A'); }, 40);",
        "await sleep(120); report['=saw'] = 0;",
        _attributed,
    ),
    _pair(
        "S08.reject",
        "a rejection during the next call",
        "js",
        "new Promise((_, no) => setTimeout(no, 40, new Error('stray of A')));",
        "await sleep(120); report['=saw'] = 0;",
        _attributed,
    ),
    _pair(
        "S08.fs",
        "a pending file operation ends during the next call",
        "js",
        "globalThis.keep = fs.promises.writeFile(scratch + '/late', 'x'.repeat(1e6)).then(() => { throw new Error('stray'); });",
        "await sleep(60); report['=saw'] = 0;",
        _attributed,
    ),
    _pair(
        "S08.signal",
        "an abort listener kept for the next call",
        "js",
        "context.signal.addEventListener('abort', () => { throw 1; }); globalThis.old = context;",
        "report['=saw'] = globalThis.old?.signal.aborted === true;",
    ),
    _pair(
        "S09.py",
        "a thread that prints",
        "py",
        "def f():\n    while True:\n        os.write(1, b'A was here')\n        time.sleep(0.005)\nthreading.Thread(target=f, daemon=True).start()",
        "time.sleep(0.05)\nreport['=saw'] = threading.active_count() - 1",
    ),
    _pair(
        "S09.raw",
        "a thread that threading does not know",
        "py",
        "import _thread\n_thread.start_new_thread(time.sleep, (99,))",
        "report['=saw'] = len(os.listdir('/proc/self/task')) - 1 if os.path.exists('/proc/self/task') else 0",
    ),
    _pair(
        "S09.js",
        "a worker thread left",
        "js",
        "new wt.Worker('setInterval(() => {}, 1e6)', { eval: true }).unref(); globalThis.poison = 1;",
        "report['=saw'] = globalThis.poison;",
    ),
    _pair(
        "S10.js",
        "a changed environment and directory",
        "js",
        "process.env.PATH = 'x'; process.env.POISON = '1'; process.chdir('/'); process.umask(0); process.title = w.mark;",
        "report['=saw'] = process.env.POISON;",
    ),
    _pair(
        "S10.py",
        "a changed environment in Python",
        "py",
        "os.environ['POISON'] = '1'\nos.chdir('/')\nos.umask(0)\nL.setenv(b'POISON2', b'1', 1)",
        "report['=saw'] = os.environ.get('POISON')",
    ),
    _pair(
        "S12.py",
        "a hundred descriptors left open",
        "py",
        "sys.keep = [os.open('/dev/null', 0) for _ in range(100)]",
        "report['=saw'] = len(getattr(sys, 'keep', []))",
    ),
    _pair(
        "S12.js",
        "a hundred descriptors left open by Node",
        "js",
        "globalThis.keep = Array.from({ length: 100 }, () => fs.openSync('/dev/null'));",
        "report['=saw'] = globalThis.keep?.length;",
    ),
    _pair(
        "S13.signal",
        "signal handlers and an alarm",
        "py",
        "signal.signal(signal.SIGALRM, lambda *a: os._exit(9))\nsignal.setitimer(signal.ITIMER_REAL, 0.05)",
        "time.sleep(0.15)\nreport['=saw'] = signal.getsignal(signal.SIGALRM) != signal.SIG_DFL",
    ),
    _pair(
        "S13.trace",
        "trace and profile functions",
        "py",
        "sys.settrace(lambda *a: None)\nsys.setprofile(lambda *a: None)\nthreading.settrace(lambda *a: None)",
        "report['=saw'] = sys.gettrace() is not None or sys.getprofile() is not None",
    ),
    _pair(
        "S13.hooks",
        "exception hooks and audit hooks",
        "py",
        "sys.excepthook = lambda *a: os._exit(9)\nthreading.excepthook = lambda *a: os._exit(9)\nsys.unraisablehook = lambda *a: None",
        "report['=saw'] = sys.excepthook is not sys.__excepthook__",
    ),
    _pair(
        "S13.atexit",
        "an atexit function",
        "py",
        "import atexit\natexit.register(os._exit, 9)\nsys.poison = 1",
        "report['=saw'] = getattr(sys, 'poison', None)",
    ),
    _scoped(
        "S13.limits",
        "a lower recursion limit and a switch interval",
        "py",
        "sys.setrecursionlimit(60)\nsys.setswitchinterval(10)",
        "report['=saw'] = sys.getrecursionlimit() == 60",
    ),
    _pair(
        "S13.gc",
        "the collector off and stdout replaced",
        "py",
        "import gc\ngc.disable()\nsys.stdout = None\nsys.stderr = object()",
        "report['=saw'] = sys.stdout is None",
    ),
    _pair(
        "S15.js",
        "an exit code, engine flags and a stack limit",
        "js",
        "process.exitCode = 9; const v8 = await import('node:v8'); v8.setFlagsFromString('--stack-size=50'); Error.stackTraceLimit = 0;",
        "report['=saw'] = process.exitCode === 9;",
    ),
    Case(
        "S16.js",
        "open the inspector",
        "js",
        "const inspector = await import('node:inspector'); await attempt('open', () => { inspector.open(0, '127.0.0.1'); if (!inspector.url()) deny(); });",
    ),
    Case(
        "S16.usr1",
        "open the inspector by signal",
        "js",
        "process.kill(process.pid, 'SIGUSR1'); await sleep(200); const i = await import('node:inspector'); await attempt('url', () => { if (!i.url()) deny(); });",
    ),
    _pair(
        "S17.js",
        "files in the private folder",
        "js",
        "fs.writeFileSync(scratch + '/left', 'x'); fs.mkdirSync(scratch + '/d');",
        "report['=saw'] = fs.readdirSync(scratch);",
    ),
    _pair(
        "S17.py",
        "files in home and the temporary folders",
        "py",
        "for place in (scratch, '/tmp', '/dev/shm', '/var/tmp'):\n    try:\n        write(place + '/' + w['mark'])\n    except OSError:\n        pass",
        "report['=saw'] = [p for p in (scratch, '/tmp', '/dev/shm', '/var/tmp') if os.path.exists(p + '/' + w['mark'])]",
    ),
    _pair(
        "S17.cwd",
        "a working directory inside the private folder",
        "py",
        "os.mkdir(scratch + '/d')\nos.chdir(scratch + '/d')",
        "report['=saw'] = os.getcwd().endswith('/d')",
    ),
    Case(
        "S19.kill",
        "the warm worker is killed while idle",
        "js",
        "return json({ '=x': 1 });",
        drive=_kill_idle,
    ),
    Case(
        "S19.py",
        "the warm Python worker is killed while idle",
        "py",
        "report['=x'] = 1",
        drive=_kill_idle,
    ),
    Case(
        "S19.half",
        "half a frame and a whole one stay in the pipe after the result",
        "py",
        """
        if args.get('step') == 'a':
            threading.Timer(0.03, os.write, (4, b'\\0\\0\\0\\1\\xc1\\0\\0')).start()
        report['=step'] = args.get('step')
        """,
        drive=_pause_between,
        calls=(A, B),
        check=lambda ran: None if ran.reports[-1] == {"=step": "b"} else f"{ran.reports}",
    ),
    Case(
        "S20.js",
        "exit at every import",
        "js",
        "",
        before="process.exit(1);",
        codes=("worker_crashed",),
        calls=({},) * 6,
        again=False,
        check=lambda ran: None if "not tried again" in ran.text else f"no pause: {ran.text}",
    ),
    Case(
        "S20.py",
        "exit at every import in Python",
        "py",
        "",
        before="os._exit(3)",
        codes=("worker_crashed",),
        calls=({},) * 6,
        again=False,
        check=lambda ran: None if "not tried again" in ran.text else f"no pause: {ran.text}",
    ),
    Case(
        "S21.js",
        "an import that never ends",
        "js",
        "",
        before="await new Promise(() => {});",
        codes=("timeout",),
        again=False,
        check=lambda ran: None if "importing" in ran.text else ran.text,
    ),
    Case(
        "S21.loop",
        "an import that loops",
        "py",
        "",
        before="while True: pass",
        codes=("timeout",),
        again=False,
        check=lambda ran: None if "importing" in ran.text else ran.text,
    ),
    Case(
        "S22.js",
        "an import that writes, connects and spawns",
        "js",
        "Object.assign(report, seen); await attempt('+scratch', () => fs.readFileSync(scratch + '/import', 'utf8').length);",
        before="""const seen = {};
for (const [name, f] of Object.entries({
  write: () => fs.writeFileSync('/etc/../usr/rawattack', 'x'), spawn: () => cp.execSync('true'),
  read: () => fs.readFileSync('/etc/shadow'), passwd: () => fs.writeFileSync('/etc/rawattack', 'x'),
})) { try { f(); seen[name] = 'ok'; } catch (e) { seen[name] = String(e.code); } }
fs.writeFileSync(process.env.TMPDIR + '/import', 'x');""",
    ),
    Case(
        "S22.py",
        "an import that forks and forges a frame",
        "py",
        "report.update(SEEN)",
        before="SEEN = {}\ntry:\n    os.fork(); SEEN['fork'] = 'ok'\nexcept OSError as e:\n    SEEN['fork'] = errno.errorcode[e.errno]\n",
    ),
    Case(
        "S22.forge",
        "an import that forges loaded",
        "py",
        "",
        before="os.write(4, b'\\0\\0\\0\\1\\xc1')",
        codes=("worker_crashed",),
        again=False,
    ),
)
