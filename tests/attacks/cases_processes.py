"""Corpus §3: processes and signals; what starts, what is hit, and that a kill is total."""

# ruff: noqa: E501 - sources of handlers are data, and break where their language wants

from __future__ import annotations

import subprocess
import sys
import threading

import trio

from tests.attacks.lab import Lab
from tests.attacks.model import Case, Check, Gap, Ran

__all__ = ["CASES"]

_BOMB_SECONDS = 1.0
"""After its timeout a fork bomb is stopped by a file that it looks for."""


def _cause(word: str) -> Check:
    def check(ran: Ran) -> str | None:
        told = f"{ran.text} {dict(ran.last.detail)}"
        return None if word in told else f"{word!r} is not in {told[:300]!r}"

    return check


def _died(id_: str, title: str, language: str, body: str, word: str) -> Case:
    return Case(id_, title, language, body, codes=("worker_crashed",), check=_cause(word))


_TASKS = 512
"""Processes and threads that a tool with the grant may have."""
_TASKS_SLACK = 1.25
"""Where the launcher counts, a bomb forks on until it looks."""


class _Peak:
    """Counts a lab's processes from a thread, as often as it gets to."""

    def __init__(self, lab: Lab) -> None:
        self.most = 0
        self._lab, self._over = lab, threading.Event()

    def count(self) -> None:
        while not self._over.wait(0.02):
            self.most = max(self.most, len(self._lab.descendants()))

    def stop(self) -> None:
        self._over.set()


async def _bounded_bomb(lab: Lab, case: Case, ran: Ran) -> None:
    """Let a bomb go, with something beside us that ends it, contained or not.

    One that is not contained takes the whole host down within seconds, and us with it, so
    the process that makes the file every part of the bomb looks for exists before it.
    """
    stop = lab.work / "stop"
    seconds = case.timeout + _BOMB_SECONDS
    program = "import sys, time; time.sleep(float(sys.argv[2])); open(sys.argv[1], 'w').close()"
    command = [sys.executable, "-I", "-S", "-c", program, str(stop), str(seconds)]
    watchdog = subprocess.Popen(command)  # noqa: ASYNC220 - before the bomb, and no thread
    peak = _Peak(lab)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, peak.count)
            try:
                result = await lab.call(case.tool, seconds=case.timeout, w=lab.facts)
            finally:
                peak.stop()
    finally:
        await trio.to_thread.run_sync(watchdog.wait)
    ran.results.append(result)
    ran.code, ran.text = str(result.code), result.text
    ran.facts["peak"] = peak.most
    if lab.tier != "cgroup" and peak.most > _TASKS:
        ran.report = {"count": f"ok:{peak.most} processes, {_TASKS} are allowed"}


def _names_memory(ran: Ran) -> str | None:
    """Threads end at whichever bound comes first; V8's word for memory is heeded."""
    said = "".join(ran.last.logs.values())
    if ran.code == "handler_error" and "EAGAIN" not in ran.text:
        return f"no thread was refused: {ran.text[:200]}"
    if ran.code == "worker_crashed" and ("OOM" in said or "out of memory" in said):
        return f"out of memory was told as a crash: {said[-200:]!r}"
    return None


def _held(ran: Ran) -> str | None:
    """The bomb was seen to go off, and was held."""
    peak = ran.facts["peak"]
    most = _TASKS if ran.tier == "cgroup" else int(_TASKS * _TASKS_SLACK)
    return None if 1 < peak <= most else f"{peak} processes, {most} are allowed"


_COUNTED = (Gap("process-watch", ("baseline", "namespaces"), ("count",), sometimes=True),)


CASES: tuple[Case, ...] = (
    Case(
        "P01.js",
        "spawn a child in every way Node has",
        "js",
        """
  const gone = (c) => new Promise((ok, no) => { c.on('error', no); c.on('spawn', () => ok('ran')); });
  await attempt('spawnSync', () => { const r = cp.spawnSync('/bin/true'); if (r.error) throw r.error; });
  await attempt('execSync', () => cp.execSync('true'));
  await attempt('spawn', () => gone(cp.spawn('/bin/true')));
  await attempt('fork', () => gone(cp.fork(new URL(import.meta.url).pathname)));
  await attempt('shell', () => { const r = cp.spawnSync('id', { shell: true }); if (r.error) throw r.error; });
  await attempt('detached', () => gone(cp.spawn('/bin/sleep', ['9'], { detached: true })));
  await attempt('self', () => gone(cp.spawn(process.execPath, ['-e', '1'])));
  const cluster = await import('node:cluster');
  await attempt('cluster', () => gone(cluster.default.fork()));
""",
    ),
    Case(
        "P01.py",
        "spawn a child in every way Python has",
        "py",
        """
        attempt('run', subprocess.run, ['/bin/true'])
        attempt('fork', os.fork)
        attempt('vfork', raw, 'vfork')
        attempt('forkpty', os.forkpty)
        attempt('posix_spawn', os.posix_spawn, '/bin/true', ['true'], {})
        attempt('system', lambda: deny() if os.system('true') == 127 << 8 else 'ran')
        attempt('popen', lambda: os.popen('echo hi').read())
        attempt('clone', lambda: raw('clone', 17, 0, 0, 0, 0))
        attempt('clone-vm', lambda: raw('clone', 0x100 | 0x4000 | 17, 0, 0, 0, 0))
        asked = struct.pack('QQQQQQQQ', 0, 0, 0, 0, 17, 0, 0, 0)
        attempt('clone3', lambda: raw('clone3', asked, len(asked)))
        attempt('exec', os.execv, '/bin/true', ['true'])
        attempt('exec-self', os.execv, '/proc/self/exe', ['x', '-c', '1'])
        thread = threading.Thread(target=lambda: None)
        attempt('+thread', thread.start)
        """,
    ),
    Case(
        "P01.procs",
        "with the grant children run, confined like their parent",
        "py",
        """
        attempt('+hi', lambda: program('/bin/sh', '-c', 'echo hi'))
        attempt('cat', lambda: program('/bin/cat', w['secret']))
        for name, line in (
            ('victim', 'echo x >> ' + w['victim']), ('shadow', 'head -c1 /etc/shadow'),
            ('environ', 'cat /proc/%d/environ' % w['supervisor']),
            ('kill', 'kill -9 %d' % w['decoy']), ('mount', 'mount -t tmpfs t ' + scratch),
            ('unshare', 'unshare -Ur true'), ('su', 'su -c true nobody'),
            ('nice', 'renice -n -5 -p $$'), ('litter', 'echo x > /etc/' + w['mark']),
        ):
            attempt(name, lambda: program('/bin/sh', '-c', line))
        """,
        profile="procs",
        timeout=4.0,
    ),
    Case(
        "P02.py",
        "fork bomb without the grant",
        "py",
        """
        for _ in range(1000):
            try:
                os.fork()
            except OSError as error:
                report['fork'] = name_of(error)
        """,
    ),
    Case(
        "P02.procs",
        "fork bomb with the grant",
        "py",
        """
        L.prctl(15, w['mark'].encode(), 0, 0, 0)
        while not os.path.exists(w['work'] + '/stop'):
            try:
                os.fork()
            except OSError:
                pass
        os._exit(0)
        """,
        profile="procs",
        codes=("timeout", "worker_crashed", "memory_limit", "output_limit"),
        timeout=0.8,
        drive=_bounded_bomb,
        check=_held,
        gaps=_COUNTED,
    ),
    Case(
        "P02.sessions",
        "fork bomb with the grant whose processes leave session and group",
        "py",
        """
        L.prctl(15, w['mark'].encode(), 0, 0, 0)
        while not os.path.exists(w['work'] + '/stop'):
            try:
                if os.fork() == 0:
                    os.setsid()
            except OSError:
                pass
        os._exit(0)
        """,
        profile="procs",
        codes=("timeout", "worker_crashed", "memory_limit", "output_limit"),
        timeout=0.8,
        drive=_bounded_bomb,
        check=_held,
        gaps=_COUNTED,
    ),
    Case(
        "P02.sh",
        "fork bomb of a shell with the grant",
        "js",
        """
  const stop = w.work + '/stop';
  cp.spawn('/bin/sh', ['-c', `f() { [ -e ${stop} ] && exit; f | f & f; }; f`], { stdio: 'ignore' });
  await new Promise(() => {});
""",
        profile="procs",
        codes=("timeout", "worker_crashed", "memory_limit", "output_limit"),
        timeout=0.8,
        drive=_bounded_bomb,
        check=_held,
        gaps=_COUNTED,
    ),
    Case(
        "P03.js",
        "thread bomb of workers",
        "js",
        "for (let i = 0; i < 10000; i++) new wt.Worker('setInterval(() => {}, 1e6)', { eval: true });",
        codes=("memory_limit", "worker_crashed", "handler_error"),
        check=_names_memory,
    ),
    Case(
        "P03.py",
        "thread bomb",
        "py",
        """
        event = threading.Event()
        for _ in range(10000):
            threading.Thread(target=event.wait, daemon=True).start()
        """,
        codes=("memory_limit", "handler_error"),
    ),
    Case(
        "P04.py",
        "double fork with setsid, then return success",
        "py",
        """
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                L.prctl(15, w['mark'].encode(), 0, 0, 0)
                time.sleep(999)
            os._exit(0)
        os.wait()
        """,
        profile="procs",
    ),
    Case(
        "P04.js",
        "detach a daemon and unref it",
        "js",
        """
  // The mark is the name of a shell that waits, so it is in that shell's arguments.
  cp.spawn('/bin/sh', ['-c', `setsid setsid sh -c 'sleep 999; :' ${w.mark} & exit 0`],
    { detached: true, stdio: 'ignore' }).unref();
  await sleep(100);
""",
        profile="procs",
    ),
    Case(
        "P04.orphans",
        "leave a daemon that ignores every signal and forks on",
        "py",
        """
        if os.fork() == 0:
            for number in range(1, 32):
                try:
                    signal.signal(number, signal.SIG_IGN)
                except OSError:
                    pass
            os.setsid()
            end = time.monotonic() + 20
            while time.monotonic() < end:
                if os.fork():
                    os._exit(0)
                L.prctl(15, w['mark'].encode(), 0, 0, 0)
                time.sleep(0.001)
            os._exit(0)
        """,
        profile="procs",
    ),
    Case(
        "P05.py",
        "leave a child that holds every pipe open",
        "py",
        """
        if os.fork() == 0:
            if os.fork() == 0:
                L.prctl(15, w['mark'].encode(), 0, 0, 0)
                time.sleep(999)
            os._exit(0)
        os.wait()
        os.write(1, b'printed')
        """,
        profile="procs",
        check=lambda ran: (
            None if ran.last.logs.get("stdout") == "printed" else f"logs {dict(ran.last.logs)}"
        ),
    ),
    Case(
        "P05.exit",
        "exit while a child holds the reply pipe open",
        "py",
        """
        if os.fork() == 0:
            os.setsid()
            L.prctl(15, w['mark'].encode(), 0, 0, 0)
            time.sleep(999)
        os._exit(3)
        """,
        profile="procs",
        codes=("worker_crashed",),
        check=_cause("status 3"),
    ),
    Case(
        "P06.js",
        "ignore every signal and never settle",
        "js",
        "for (const s of ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGUSR2', 'SIGPIPE']) process.on(s, () => {});\n"
        "await new Promise(() => {});",
        codes=("timeout",),
        timeout=0.5,
    ),
    Case(
        "P06.py",
        "block every signal and sleep",
        "py",
        "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\ntime.sleep(999)",
        codes=("timeout",),
        timeout=0.5,
    ),
    Case(
        "P07.js",
        "stop itself",
        "js",
        "process.kill(process.pid, 'SIGSTOP');\nawait new Promise(() => {});",
        codes=("timeout",),
        timeout=0.5,
    ),
    Case(
        "P07.procs",
        "stop a child and itself",
        "py",
        """
        pid = os.fork()
        L.prctl(15, w['mark'].encode(), 0, 0, 0)
        if pid == 0:
            os.kill(os.getpid(), signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        """,
        profile="procs",
        codes=("timeout",),
        timeout=0.5,
    ),
    _died(
        "P08.segv",
        "die by SIGSEGV",
        "js",
        "process.kill(process.pid, 'SIGSEGV'); await sleep(1e5)",
        "SIGSEGV",
    ),
    _died("P08.abrt", "abort", "js", "process.abort()", "SIGABRT"),
    _died(
        "P08.kill",
        "die by SIGKILL",
        "js",
        "process.kill(process.pid, 'SIGKILL'); await sleep(1e5)",
        "SIGKILL",
    ),
    _died("P08.sys", "die by SIGSYS", "py", "os.kill(os.getpid(), signal.SIGSYS)", "SIGSYS"),
    _died("P08.term", "die by SIGTERM", "py", "os.kill(os.getpid(), 15); time.sleep(9)", "SIGTERM"),
    _died("P08.bus", "fault for real", "py", "ctypes.string_at(1)", "SIGSEGV"),
    _died("P09.zero", "exit with 0", "js", "process.exit(0)", "status 0"),
    _died("P09.three", "exit with 3", "js", "process.exit(3)", "status 3"),
    _died("P09.really", "exit past every hook", "js", "process.reallyExit(4)", "status 4"),
    _died("P09.os", "exit past every hook in Python", "py", "os._exit(9)", "status 9"),
    _died("P09.group", "exit by the raw call", "py", "raw('exit_group', 77)", "status 77"),
    _died(
        "P09.drain",
        "let the event loop run dry",
        "js",
        "process.removeAllListeners(); process.exitCode = 5; process.exit()",
        "status 5",
    ),
    Case(
        "P09.thread",
        "end only the main thread",
        "py",
        "threading.Thread(target=time.sleep, args=(99,), daemon=True).start()\nraw('exit', 0)",
        codes=("timeout", "worker_crashed"),
        timeout=0.7,
    ),
    Case(
        "P10.js",
        "exit right after a large result",
        "js",
        "setImmediate(() => process.exit(0));\nreturn { content: [{ type: 'text', text: 'x'.repeat(5e6) }] };",
        codes=("ok", "worker_crashed"),
        check=lambda ran: (
            None
            if ran.code != "ok" or ran.last.usage.get("truncated_bytes", 0) > 4_000_000
            else "half a result"
        ),
        rss_mb=25,
    ),
    Case(
        "P10.exit",
        "exit in a beforeExit and exit hook around a result",
        "js",
        "process.on('exit', () => process.reallyExit(0)); queueMicrotask(() => {});\n"
        "return { content: [{ type: 'text', text: 'y'.repeat(5e5) }] };",
        codes=("ok", "worker_crashed"),
        rss_mb=25,
    ),
    Case(
        "P11.py",
        "signal the supervisor, the launcher, the group and everyone",
        "py",
        """
        targets = [w['supervisor'], w['launcher'], os.getppid(), -1, -w['supervisor'],
                   -w['launcher'], *w['siblings']]
        for index, pid in enumerate(targets):
            for number in (9, 15, 19, 1):
                attempt('%d-%d' % (index, number), os.kill, pid, number)
        for pid in (w['supervisor'], w['decoy'], w['launcher']):
            attempt('tgkill-%d' % pid, lambda: raw('tgkill', pid, pid, 9))
            attempt('group-%d' % pid, os.killpg, pid, 9)
            attempt('pidfd-%d' % pid, os.pidfd_open, pid)
            attempt('queue-%d' % pid, lambda: checked(L.sigqueue(pid, 9, 0)))
        attempt('owner', lambda: fcntl.fcntl(0, fcntl.F_SETOWN, w['supervisor']))
        """,
    ),
    Case(
        "P11.group",
        "signal the own group",
        "py",
        "os.kill(0, 9)\ntime.sleep(9)",
        codes=("worker_crashed",),
    ),
    Case(
        "P11.procs",
        "signal everyone with processes granted",
        "py",
        """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for index, pid in enumerate((w['supervisor'], w['launcher'], w['decoy'], -1,
                                     *w['siblings'])):
            if pid != 1:
                attempt('%d' % index, os.kill, pid, signal.SIGTERM)
        for pid in (w['supervisor'], w['decoy'], w['launcher']):
            attempt('pidfd-%d' % pid, lambda: signal.pidfd_send_signal(os.pidfd_open(pid), 15))
        attempt('sh-decoy', lambda: program('/bin/sh', '-c', 'kill -9 %d' % w['decoy']))
        attempt('sh-all', lambda: program('/bin/sh', '-c', 'trap "" TERM; kill -15 -1'))
        """,
        profile="procs",
        codes=("ok", "worker_crashed"),
    ),
    Case(
        "P11.js",
        "signal the supervisor and everyone from Node",
        "js",
        """
  for (const pid of [w.supervisor, w.launcher, w.decoy, process.ppid, -1, ...w.siblings]) {
    if (pid === 0) continue;
    await attempt('p' + pid, () => process.kill(pid, 'SIGTERM'));
  }
""",
    ),
    Case(
        "P12.py",
        "signal guessed process ids",
        "py",
        """
        hit = []
        for pid in [*range(2, 4000), *range(w['supervisor'] - 300, w['supervisor'] + 300)]:
            if pid == os.getpid():
                continue
            try:
                os.kill(pid, 15)
                hit.append(pid)
            except OSError:
                pass
        report['=hit'] = hit
        """,
        check=lambda ran: f"hit {ran.report['=hit']}" if ran.report["=hit"] else None,
    ),
    Case(
        "P14.py",
        "execute through the loader",
        "py",
        """
        for loader in ('/lib64/ld-linux-x86-64.so.2', '/lib/ld-linux-aarch64.so.1'):
            attempt(loader, os.execv, loader, ['x', '/usr/bin/id'])
        attempt('direct', os.execv, '/usr/bin/id', ['id'])
        attempt('node', os.execv, '/usr/bin/node', ['node', '-e', '1'])
        attempt('script', lambda: (write(scratch + '/s', b'#!/bin/sh'), os.chmod(scratch + '/s',
            0o755), os.execv(scratch + '/s', ['s'])))
        """,
    ),
    Case(
        "P14.procs",
        "execute through the loader with processes granted",
        "py",
        """
        loader = '/lib64/ld-linux-x86-64.so.2'
        if os.path.exists(loader):
            attempt('secret', lambda: program(loader, '/bin/cat', w['secret']))
        attempt('+own', lambda: program('/bin/sh', '-c', 'cp /bin/true ./mine && ./mine',
            cwd=w['work']))
        """,
        profile="procs",
    ),
    Case(
        "P15.py",
        "execute from a memory file",
        "py",
        """
        def run():
            fd = os.memfd_create('x')
            os.write(fd, open('/bin/true', 'rb').read())
            os.execve(fd, ['x'], {})
        attempt('memfd', run)
        words, none = (ctypes.c_char_p * 2)(b'true', None), (ctypes.c_char_p * 1)(None)
        attempt('execveat', lambda: raw('execveat', -100, b'/bin/true', words, none, 0))
        attempt('path', os.execve, '/proc/self/exe', ['x', '-c', '1'], {})
        """,
    ),
    Case(
        "P16.js",
        "load native code and WebAssembly",
        "js",
        """
  fs.writeFileSync(scratch + '/x.node', Buffer.alloc(4096, 0x7f));
  // Code of one's own may be loaded; what is none is an error and not a crash.
  try { process.dlopen({ exports: {} }, scratch + '/x.node'); }
  catch (error) { report['=dlopen'] = code_of(error); }
  await attempt('+wasm', () => new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]))
    && undefined);
""",
        check=lambda ran: (
            None if ran.report.get("=dlopen") == "ERR_DLOPEN_FAILED" else f"{ran.report}"
        ),
    ),
    Case(
        "P16.py",
        "call the kernel through ctypes, also by another architecture's entry",
        "py",
        """
        attempt('socket', lambda: checked(L.socket(2, 1, 0)))
        attempt('fork', lambda: checked(L.fork()))
        attempt('x32', lambda: checked(L.syscall(0x40000000 + 41, 2, 1, 0)))
        attempt('new', lambda: checked(L.syscall(9999)))
        attempt('chroot', lambda: checked(L.chroot(scratch.encode())))
        attempt('+getpid', lambda: L.getpid())
        """,
    ),
    Case(
        "P16.int80",
        "enter the kernel by the 32-bit gate",
        "py",
        """
        import mmap
        code = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=7)
        # mov eax, 2 (fork); int 0x80; ret
        code.write(b'\\xb8\\x02\\x00\\x00\\x00\\xcd\\x80\\xc3')
        address = ctypes.addressof(ctypes.c_char.from_buffer(code))
        result = ctypes.CFUNCTYPE(ctypes.c_int)(address)()
        report['=pid'] = result
        attempt('fork', lambda: checked(result) if result >= 0 else deny())
        """,
        codes=("worker_crashed", "ok"),
    ),
    Case(
        "P17.py",
        "raise priority, change affinity, lock memory, raise limits",
        "py",
        """
        attempt('nice', os.nice, -5)
        attempt('priority', os.setpriority, os.PRIO_PROCESS, w['decoy'], 19)
        attempt('group', os.setpriority, os.PRIO_USER, os.getuid(), 19)
        attempt('affinity', os.sched_setaffinity, 0, {0})
        attempt('decoy-affinity', os.sched_setaffinity, w['decoy'], {0})
        attempt('fifo', os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1))
        attempt('mlockall', lambda: checked(L.mlockall(3)))
        attempt('mlock', lambda: checked(L.mlock(ctypes.create_string_buffer(1 << 20), 1 << 20)))
        import resource
        for name in ('DATA', 'NOFILE', 'FSIZE', 'CORE', 'MEMLOCK', 'STACK', 'NPROC'):
            which = getattr(resource, 'RLIMIT_' + name)
            hard = resource.getrlimit(which)[1]
            if hard not in (-1,):
                more = struct.pack('QQ', hard + 1, hard + 1)
                attempt('limit-' + name, lambda: raw('prlimit64', 0, which, more, 0))
        attempt('prlimit', resource.prlimit, w['decoy'], resource.RLIMIT_NOFILE, (3, 3))
        attempt('oom', write, '/proc/self/oom_score_adj', b'-1000')
        attempt('ioprio', lambda: raw('ioprio_set', 1, w['decoy'], 0))
        """,
    ),
    Case(
        "P19.py",
        "clear the death signal, become a subreaper and dumpable, then hang",
        "py",
        """
        L.prctl(1, 0, 0, 0, 0)
        L.prctl(36, 1, 0, 0, 0)
        L.prctl(4, 1, 0, 0, 0)
        L.prctl(15, w['mark'].encode(), 0, 0, 0)
        time.sleep(999)
        """,
        codes=("timeout",),
        timeout=0.5,
    ),
    Case(
        "P19.procs",
        "the same with children",
        "py",
        """
        for number, value in ((1, 0), (36, 1), (4, 1)):
            L.prctl(number, value, 0, 0, 0)
        for _ in range(5):
            if os.fork() == 0:
                L.prctl(1, 0, 0, 0, 0)
                os.setsid()
                os.fork()
                L.prctl(15, w['mark'].encode(), 0, 0, 0)
                time.sleep(999)
        time.sleep(999)
        """,
        profile="procs",
        codes=("timeout",),
        timeout=0.7,
    ),
    Case(
        "P20.py",
        "dump core with a secret in memory",
        "py",
        """
        import resource
        try:
            resource.setrlimit(resource.RLIMIT_CORE, (-1, -1))
        except (OSError, ValueError):
            pass
        L.prctl(4, 1, 0, 0, 0)
        os.chdir(w['work'])
        os.kill(os.getpid(), 6)
        """,
        codes=("worker_crashed",),
        check=lambda ran: "a core was dumped" if ran.last.detail.get("core_dumped") else None,
    ),
)
