"""Kernel interfaces a plugin has no business with: each refused, by the right errno."""

from __future__ import annotations

import os

from requires import require
from tests.launcher.box import Box

# Bad descriptors and null pointers: a call that gets through does nothing.
FORBIDDEN = {
    "ptrace": (101, 16, -1, 0, 0),
    "process_vm_readv": (310, -1, 0, 0, 0, 0, 0),
    "process_vm_writev": (311, -1, 0, 0, 0, 0, 0),
    "pidfd_getfd": (438, -1, 0, 0),
    "kcmp": (312, -1, -1, 0, 0, 0),
    "add_key": (248, 0, 0, 0, 0, 0),
    "request_key": (249, 0, 0, 0, 0),
    "keyctl": (250, 99, 0, 0, 0, 0),
    "bpf": (321, -1, 0, 0),
    "perf_event_open": (298, 0, 0, 0, -1, 0),
    "userfaultfd": (323, -1),
    "mount": (165, 0, 0, 0, 0, 0),
    "umount2": (166, 0, 0),
    "open_tree": (428, -1, 0, 0),
    "move_mount": (429, -1, 0, -1, 0, 0),
    "fsopen": (430, 0, 0),
    "mount_setattr": (442, -1, 0, 0, 0, 0),
    "unshare": (272, 0x10000000),
    "setns": (308, -1, 0),
    "pivot_root": (155, 0, 0),
    "chroot": (161, 0),
    "kexec_load": (246, 0, 0, 0, 0),
    "init_module": (175, 0, 0, 0),
    "finit_module": (313, -1, 0, 0),
    "delete_module": (176, 0, 0),
    "reboot": (169, 0, 0, 0, 0),
    "swapon": (167, 0, 0),
    "open_by_handle_at": (304, -1, 0, 0),
    "name_to_handle_at": (303, -1, 0, 0, 0, 0),
    "modify_ldt": (154, 99, 0, 0),
    "personality": (135, 0x0040000),
    "quotactl": (179, 0, 0, 0, 0),
    "acct": (163, 0),
    "settimeofday": (164, 0, 0),
    "clock_settime": (227, -1, 0),
    "iopl": (172, 0),
    "ioperm": (173, 0, 0, 0),
    "syslog": (103, 99, 0, 0),
    "fanotify_init": (300, -1, -1),
    "sched_setscheduler": (144, 0, -1, 0),
    "shmget": (29, 0, 0, 0),
    "semget": (64, 0, 0, 0),
    "msgget": (68, 0, 0),
    "mq_open": (240, 0, 0, 0, 0),
}
ABSENT = {
    "io_uring_setup": (425, 0, 0),
    "io_uring_enter": (426, -1, 0, 0, 0, 0, 0),
    "io_uring_register": (427, -1, 0, 0, 0),
    "clone3": (435, 0, 0),
    "memfd_secret": (447, -1),
    "io_setup": (206, 0, 0),
    "statmount": (457, 0, 0, 0, 0),
    "setxattrat": (463, -1, 0, 0, 0, 0, 0),
    "not yet invented": (600,),
    "x32 getpid": (0x40000000 + 39,),
}


def require_x86_64() -> None:
    """The numbers above are of x86_64; the filter itself is tested for both machines."""
    machine = os.uname().machine
    require("arch", machine == "x86_64", f"the system call numbers are not those of {machine}")


def test_dangerous_system_calls_are_refused(box: Box) -> None:
    """K01, K03, K04, K05, K07, K08, F25, N11: refused before they look at anything."""
    require_x86_64()
    calls = {**FORBIDDEN, **ABSENT}
    result = box.value(
        f"calls={calls!r}\n"
        "print(json.dumps({n: raw(*[ctypes.c_long(v) for v in a]) for n, a in calls.items()}))"
    )
    assert result == {**dict.fromkeys(FORBIDDEN, "EPERM"), **dict.fromkeys(ABSENT, "ENOSYS")}


def test_shell_plans_refuse_the_same_calls_but_for_new_processes(box: Box) -> None:
    """K01…: a processes grant opens nothing else; namespaces by clone stay closed."""
    require_x86_64()
    private_ipc = {"shmget", "semget", "msgget", "mq_open"} if box.private else set()
    calls = {n: a for n, a in {**FORBIDDEN, **ABSENT}.items() if n not in private_ipc}
    result = box.value(
        f"calls={calls!r}\n"
        "r={n: raw(*[ctypes.c_long(v) for v in a]) for n, a in calls.items()}\n"
        "r['clone']=raw(56, ctypes.c_long(0x10000000|17), 0, 0, 0, 0)\n"
        "print(json.dumps(r))",
        processes=True,
    )
    wanted = {**dict.fromkeys(FORBIDDEN, "EPERM"), **dict.fromkeys(ABSENT, "ENOSYS")}
    assert result == {**{n: wanted[n] for n in calls}, "clone": "EPERM"}


def test_parent_and_launcher_cannot_be_looked_into(box: Box) -> None:
    """F08, K02: environment, memory, descriptors and maps of the processes above."""
    pid = box.client.process.pid
    result = box.value(
        "r=[]\n"
        f"for p in {{os.getppid(), {pid}}} - {{0}}:\n"
        "    for n in ('environ','mem','maps','fd','auxv','cwd','root','task'):\n"
        "        q=f'/proc/{p}/{n}'\n"
        "        r.append(attempt(os.listdir if n in ('fd','task','cwd','root') else open, q))\n"
        "print(json.dumps(r))"
    )
    assert "ok" not in result


def test_own_environment_is_exactly_what_was_asked_for(box: Box) -> None:
    """F09: nothing of the launcher's or the supervisor's."""
    result = box.value(
        "print(json.dumps([sorted(set(os.environ) - {'LC_CTYPE'}),"
        " sorted({p.split(b'=')[0].decode() for p in"
        " open('/proc/self/environ','rb').read().split(b'\\0') if p})]))",
        env={"PATH": "/usr/bin", "ASKED": "1"},
    )
    wanted = ["ASKED", "HOME", "PATH", "TEMP", "TMP", "TMPDIR"]
    assert result == [wanted, wanted]


def test_terminal_injection_is_refused(box: Box) -> None:
    """K10: TIOCSTI and TIOCLINUX, whatever the descriptor is."""
    assert box.value(
        "import fcntl\n"
        "print(json.dumps([attempt(fcntl.ioctl, 0, n, b'x') for n in (0x5412, 0x541C, 0x5423)]))"
    ) == ["EPERM", "EPERM", "EPERM"]


def test_memory_locking_and_shared_anonymous_memory_are_capped(box: Box) -> None:
    """P17, M02: what resource limits on private memory would not count."""
    result = box.value(
        "import mmap\nprint(json.dumps([L.mlockall(3), attempt(mmap.mmap, -1, 4096)]))",
    )
    assert result == [-1, "ok" if box.tier == "cgroup" else "ENOMEM"]
