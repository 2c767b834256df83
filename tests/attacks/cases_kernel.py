"""Corpus §9: the supervisor's memory and descriptors, and kernel interfaces."""

# ruff: noqa: E501 - sources of handlers are data, and break where their language wants

from __future__ import annotations

import json
import os

from raw_exec.text import escape_text
from tests.attacks.lab import Lab
from tests.attacks.model import TIERS, Case, Check, Gap, Ran

__all__ = ["CASES"]

_PIDS = "pids = [w['supervisor'], w['launcher'], w['decoy'], os.getppid(), *w['siblings']]\n"


async def _with_mark(lab: Lab, case: Case, ran: Ran) -> None:
    ran.results.append(await lab.call(case.tool, seconds=case.timeout, w=lab.facts))
    ran.code = "ok" if not ran.last.is_error else str(ran.last.code)
    ran.report, ran.text = ran.reports[-1] or {}, ran.last.text
    ran.facts["mark"] = lab.facts["mark"]


def _named(word: str) -> Check:
    return lambda ran: None if word in f"{ran.text} {dict(ran.last.detail)}" else ran.text


def _powerless(ran: Ran) -> str | None:
    report = ran.report
    # An id that a user namespace does not map is invalid there.
    refused = report["=setuid"] in ("EPERM", "EINVAL") and report["=setgroups"] == "EPERM"
    inheritable, permitted, effective, bounding, ambient = (int(c, 16) for c in report["=caps"])
    # Only a privileged process may shrink the bounding set. It bounds what running a program may
    # give, which with no_new_privs is nothing.
    bounded = bounding == 0 or (ran.tier == "baseline" and os.geteuid() != 0)
    held = not (inheritable or permitted or effective or ambient) and bounded
    held = held and report["=nnp"] == "1"
    return None if refused and held and report["=seccomp"] == "2" else str(report)


def _no_terminal(ran: Ran) -> str | None:
    wrong = {name: code for name, code in ran.report["=codes"].items() if code != "ENOTTY"}
    wrong |= {name: code for name, code in ran.report["=filtered"].items() if code != "EPERM"}
    return f"got through to a driver: {wrong}" if wrong else None


CASES: tuple[Case, ...] = (
    Case(
        "K01.py",
        "trace the supervisor, siblings and a decoy",
        "py",
        _PIDS
        + """
for index, pid in enumerate(pids):
    for name, request in (('attach', 16), ('seize', 0x4206), ('traceme', 0)):
        attempt('%d-%s' % (index, name), lambda: raw('ptrace', request, pid, 0, 0))
""",
    ),
    Case(
        "K01.procs",
        "trace with processes granted",
        "py",
        _PIDS
        + """
for index, pid in enumerate(pids):
    attempt('%d' % index, lambda: raw('ptrace', 16, pid, 0, 0))
    attempt('%d-mem' % index, lambda: os.open('/proc/%d/mem' % pid, os.O_RDWR))
    attempt('%d-environ' % index, read, '/proc/%d/environ' % pid)
    attempt('%d-fd' % index, os.listdir, '/proc/%d/fd' % pid)
""",
        profile="procs",
    ),
    Case(
        "K02.py",
        "open the memory of other processes",
        "py",
        _PIDS
        + """
for index, pid in enumerate(pids):
    attempt('%d-r' % index, os.open, '/proc/%d/mem' % pid, os.O_RDONLY)
    attempt('%d-w' % index, os.open, '/proc/%d/mem' % pid, os.O_RDWR)
    attempt('%d-task' % index, os.open, '/proc/%d/task/%d/mem' % (pid, pid), os.O_RDWR)
    attempt('%d-oom' % index, write, '/proc/%d/oom_score_adj' % pid, b'1000')
    attempt('%d-attr' % index, write, '/proc/%d/attr/current' % pid, b'x')
    attempt('%d-cg' % index, write, '/proc/%d/comm' % pid, b'x')
""",
    ),
    Case(
        "K03.py",
        "read and write other memory by system call",
        "py",
        _PIDS
        + """
class V(ctypes.Structure): _fields_ = (('base', ctypes.c_void_p), ('size', ctypes.c_size_t))
buffer = ctypes.create_string_buffer(8)
local = V(ctypes.addressof(buffer), 8)
for index, pid in enumerate(pids):
    far = V(w['maps'].get(str(pid), 4096), 8)
    for name in ('process_vm_readv', 'process_vm_writev'):
        attempt('%d-%s' % (index, name), lambda: raw(name, pid, ctypes.byref(local), 1,
            ctypes.byref(far), 1, 0))
own = os.pidfd_open(os.getpid())
page = V(ctypes.addressof(buffer) & ~4095, 4096)
attempt('madvise', lambda: raw('process_madvise', own, ctypes.byref(page), 1, 20, 0))
attempt('kcmp', lambda: raw('kcmp', w['supervisor'], w['decoy'], 0, 0, 0))
attempt('move', lambda: raw('move_pages', w['decoy'], 0, 0, 0, 0, 0))
attempt('prlimit', lambda: raw('prlimit64', w['decoy'], 7, 0, ctypes.create_string_buffer(16)))
""",
    ),
    Case(
        "K04.py",
        "steal descriptors through a pidfd",
        "py",
        _PIDS
        + """
for index, pid in enumerate(pids):
    attempt('%d' % index, lambda: raw('pidfd_getfd', os.pidfd_open(pid), 3, 0))
own = os.pidfd_open(os.getpid())
attempt('own', lambda: raw('pidfd_getfd', own, 0, 0))
""",
    ),
    Case(
        "K05.js",
        "io_uring from Node",
        "js",
        "await attempt('uring', () => { if (!fs.readFileSync('/proc/self/maps', 'utf8').includes('io_uring')) deny(); });",
    ),
    Case(
        "K07.py",
        "use the kernel's keyrings",
        "py",
        """
for ring in (-1, -2, -3, -4, -5):
    attempt('add%d' % ring, lambda: raw('add_key', b'user', b'd', b'x', 1, ring))
    attempt('get%d' % ring, lambda: raw('keyctl', 0, ring, 0))
attempt('join', lambda: raw('keyctl', 1, 0))
attempt('request', lambda: raw('request_key', b'user', b'd', 0, -4))
attempt('keys', read, '/proc/keys')
""",
    ),
    Case(
        "K08.py",
        "kernel interfaces that need no privilege or much of it",
        "py",
        """
buffer = ctypes.create_string_buffer(256)
for name, rest in (('bpf', (0, buffer, 72)), ('perf_event_open', (buffer, 0, -1, -1, 0)),
        ('kexec_load', (0, 0, 0, 0)), ('init_module', (buffer, 0, b'')),
        ('finit_module', (0, b'', 0)), ('modify_ldt', (0, buffer, 256)), ('iopl', (3,)),
        ('userfaultfd', (1,)), ('personality', (0x0040000,)), ('swapon', (b'/x', 0)),
        ('reboot', (0, 0, 0, 0)), ('syslog', (3, buffer, 256)), ('quotactl', (0, 0, 0, 0)),
        ('fanotify_init', (0, 0)), ('settimeofday', (0, 0)), ('sethostname', (b'x', 1)),
        ('acct', (0,)), ('lookup_dcookie', (0, buffer, 8)), ('fsopen', (b'ext4', 0))):
    attempt(name, lambda: raw(name, *rest))
attempt('caps', lambda: checked(L.prctl(47, 2, 21, 0, 0)))
report['=setuid'] = report['=setgroups'] = ''
for name, change, ids in (('=setuid', os.setuid, 12345), ('=setgroups', os.setgroups, [0, 1, 2])):
    try:
        change(ids)
    except OSError as error:
        report[name] = name_of(error)
status = dict(line.split(':\\t', 1) for line in open('/proc/self/status') if ':\\t' in line)
report['=caps'] = [status[n].strip() for n in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb')]
report['=nnp'] = status['NoNewPrivs'].strip()
report['=seccomp'] = status['Seccomp'].strip()
""",
        check=_powerless,
    ),
    Case(
        "K08.procs",
        "the same with processes granted",
        "py",
        """
buffer = ctypes.create_string_buffer(256)
for name, rest in (('bpf', (0, buffer, 72)), ('perf_event_open', (buffer, 0, -1, -1, 0)),
        ('userfaultfd', (1,)), ('mount', (b'x', b'/', b'tmpfs', 0, 0)), ('unshare', (0x10000000,)),
        ('keyctl', (0, -3, 0)), ('io_uring_setup', (8, buffer)), ('setns', (0, 0)),
        ('personality', (0x0040000,)), ('clone3', (buffer, 88)), ('chroot', (b'/',))):
    attempt(name, lambda: raw(name, *rest))
for line in ('chroot / true', 'unshare -r true', 'mount --bind / "$TMPDIR"', 'su nobody -c true',
             'echo 0 > /proc/sys/kernel/panic', 'swapoff /dev/zero', 'dmesg'):
    attempt(line, lambda: program('/bin/sh', '-c', line))
""",
        profile="procs",
    ),
    Case(
        "K10.py",
        "push input into a terminal",
        "py",
        """
codes, filtered = report.setdefault('=codes', {}), report.setdefault('=filtered', {})
def code(action, *rest):
    try:
        return 'ok:%r' % action(*rest)
    except OSError as error:
        return name_of(error)
for fd in range(6):
    for name, request in (('sti', 0x5412), ('linux', 0x541c), ('setd', 0x5423), ('setown', 0x8901)):
        filtered['%d-%s' % (fd, name)] = code(fcntl.ioctl, fd, request, b'x' * 8)
    codes['%d-sctty' % fd] = code(fcntl.ioctl, fd, 0x540e, b'x' * 8)
    codes['%d-tty' % fd] = code(os.ttyname, fd)
""",
        check=_no_terminal,
    ),
    Case(
        "K11.py",
        "talk to another plugin by an abstract socket",
        "py",
        """
s = None
def serve():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.bind('\\0' + w['mark'] + '-covert')
attempt('bind', serve)
""",
    ),
    Case(
        "K12.py",
        "share memory and System V IPC",
        "py",
        """
attempt('shmget', lambda: raw('shmget', 0x52415731, 4096, 0o1666))
attempt('semget', lambda: raw('semget', 0x52415731, 1, 0o1666))
attempt('msgget', lambda: raw('msgget', 0x52415731, 0o1666))
attempt('mq', lambda: raw('mq_open', w['mark'].encode(), 0o102, 0o666, 0))
report['=shm'] = []
try:
    os.open('/dev/shm/' + w['mark'], os.O_RDWR | os.O_CREAT)
    report['=shm'] = os.listdir('/dev/shm')
except OSError as error:
    report['shm_open'] = name_of(error)
""",
        # Where it can be written it is this sandbox's own: the oracle looks in the host's.
        check=lambda ran: (
            None if set(ran.report["=shm"]) <= {ran.facts["mark"]} else f"saw {ran.report['=shm']}"
        ),
        drive=_with_mark,
    ),
    Case(
        "K13.py",
        "lock and lease shared files",
        "py",
        """
import json as j
target = j.__file__
fd = os.open(target, os.O_RDONLY)
attempt('lease', fcntl.fcntl, fd, 1024, fcntl.F_WRLCK)
attempt('flock', fcntl.flock, fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
attempt('notify', fcntl.fcntl, os.open(os.path.dirname(target), 0), 1026, 1)
attempt('setown', fcntl.fcntl, fd, fcntl.F_SETOWN, w['supervisor'])
attempt('setsig', fcntl.fcntl, fd, fcntl.F_SETOWN, -w['supervisor'])
""",
        gaps=(Gap("shared-locks", tuple(TIERS), ("flock", "notify")),),
    ),
    Case(
        "K15.js",
        "hand loader tricks to children",
        "js",
        """
  for (const env of [{ LD_PRELOAD: scratch + '/x.so' }, { NODE_OPTIONS: '--require=' + scratch },
    { PYTHONPATH: scratch }, { LD_LIBRARY_PATH: scratch }])
    await attempt(Object.keys(env)[0], () => { const r = cp.spawnSync('/bin/true', { env }); if (r.error) throw r.error; });
""",
    ),
    Case(
        "K15.procs",
        "preload a library of one's own into a set-user-ID program",
        "py",
        """
attempt('su', lambda: program('/bin/sh', '-c', 'LD_PRELOAD=/x.so su nobody -c id'))
""",
        profile="procs",
    ),
    *(
        Case(
            f"K16.{number}",
            f"die with {title}",
            "py",
            body,
            codes=("worker_crashed",),
            check=_named(word),
        )
        for number, title, body, word in (
            (
                "rt",
                "the last real-time signal",
                "os.kill(os.getpid(), 64)\ntime.sleep(9)",
                "SIGRTMAX",
            ),
            (
                "rtmin",
                "the first real-time signal",
                "os.kill(os.getpid(), 34)\ntime.sleep(9)",
                "SIGRTMIN",
            ),
            ("e128", "status 128", "os._exit(128)", "status 128"),
            ("e137", "status 137", "os._exit(137)", "status 137"),
            ("e255", "status 255", "os._exit(255)", "status 255"),
            ("e126", "the launcher's own status", "os._exit(126)", "status 126"),
            ("e70", "the bridge's own status", "os._exit(70)", "status 70"),
            ("trap", "a trap", "os.kill(os.getpid(), 5)\ntime.sleep(9)", "SIGTRAP"),
            ("quit", "a quit with core", "os.kill(os.getpid(), 3)\ntime.sleep(9)", "SIGQUIT"),
            (
                "xcpu",
                "a forged CPU limit",
                "os.kill(os.getpid(), signal.SIGXFSZ)\nsignal.signal(signal.SIGXFSZ, signal.SIG_DFL)\nos.kill(os.getpid(), signal.SIGXFSZ)\ntime.sleep(9)",
                "SIGXFSZ",
            ),
        )
    ),
    Case(
        "K16.oomlie",
        "print V8's last words and abort",
        "js",
        "process.stderr.write('FATAL ERROR: Reached heap limit'); process.abort();",
        # V8's own words are the evidence there is: a plugin can say them of itself alone.
        codes=("memory_limit",),
        check=lambda ran: None if "stderr" in ran.last.detail["evidence"] else str(ran.last.detail),
    ),
    Case(
        "K17.py",
        "a hostile process name, then die",
        "py",
        "L.prctl(15, b'\\x1b[2J)\\n', 0, 0, 0)\ntime.sleep(0.05)\nos._exit(5)",
        codes=("worker_crashed",),
        check=lambda ran: (
            "raw controls"
            if escape_text(told := json.dumps(ran.last.as_dict(), ensure_ascii=False)) != told
            else None
        ),
    ),
    Case(
        "K17.argv",
        "a hostile process title, then hang",
        "js",
        "process.title = '\\x1b[2J) R 1 1 1 ' + 'x'.repeat(1e6); await new Promise(() => {});",
        codes=("timeout",),
        timeout=0.5,
    ),
    Case(
        "K19.py",
        "end thousands of threads",
        "py",
        "for _ in range(1500):\n    t = threading.Thread(target=lambda: None)\n    t.start()\n    t.join()",
        timeout=4.0,
    ),
    Case(
        "K19.procs",
        "end hundreds of children, some without waiting",
        "py",
        "for i in range(150):\n    if os.fork() == 0: os._exit(i & 127)\n    if i % 2: os.wait()",
        profile="procs",
        timeout=4.0,
    ),
    Case(
        "K19.sigchld",
        "ignore and forge SIGCHLD",
        "py",
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\nfor pid in (os.getppid(), w['launcher'], w['supervisor']):\n    attempt('%d' % pid, os.kill, pid, signal.SIGCHLD)",
    ),
    Case(
        "K20.js",
        "search for sockets, locks and control files of the supervisor",
        "js",
        """
  for (const place of ['/run', '/tmp', '/var/run', '/run/user/0', w.base, w.private]) {
    let names = [];
    try { names = fs.readdirSync(place); } catch { }
    report['=' + place] = names;
  }
  await attempt('lock', () => fs.openSync(w.private + '/lock', 'r'));
  await attempt('lock-write', () => fs.writeFileSync(w.private + '/lock', ''));
  await attempt('sweep', () => fs.rmSync(w.private, { recursive: true }));
""",
        check=lambda ran: (
            None
            if not [v for k, v in ran.report.items() if k.startswith("=") and v]
            else f"saw {ran.report}"
        ),
    ),
)
