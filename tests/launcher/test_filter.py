"""The system call filter as data: interpreted here, for both architectures, without a kernel."""

from __future__ import annotations

import errno
import struct

import pytest

from workers.launcher.seccomp import FilterPlan, build_filter
from workers.launcher.syscall_table import AUDIT_ARCH, number

ARCHES = tuple(AUDIT_ARCH)
OPEN = FilterPlan(
    processes=True,
    initial_exec=True,
    network="host",
    unix_sockets=True,
    private_ipc=True,
    shared_memory_capped=True,
    read_only_outside=True,
    own_pid=7,
)
CLOSED = FilterPlan(
    processes=False,
    initial_exec=False,
    network="none",
    unix_sockets=False,
    private_ipc=False,
    shared_memory_capped=False,
    read_only_outside=False,
    own_pid=7,
)


def decide(program: bytes, arch: int, nr: int, *arguments: int) -> str:
    """Interpret a program for one call; return ``allow``, ``kill`` or an errno name."""
    padded = [a & 0xFFFFFFFFFFFFFFFF for a in (*arguments, 0, 0, 0, 0, 0, 0)[:6]]
    data = struct.pack("<IIQ6Q", nr & 0xFFFFFFFF, arch, 0, *padded)
    code = [struct.unpack_from("=HBBI", program, i) for i in range(0, len(program), 8)]
    accumulator = counter = 0
    while True:
        operation, yes, no, k = code[counter]
        counter += 1
        if operation == 0x20:
            accumulator = struct.unpack_from("<I", data, k)[0]
        elif operation == 0x54:
            accumulator &= k
        elif operation == 0x06:
            if k in (0x7FFF0000, 0x7FC00000):
                return "allow" if k == 0x7FFF0000 else "ask"
            return "kill" if k == 0x80000000 else errno.errorcode[k & 0xFFFF]
        else:
            hit = {
                0x15: accumulator == k,
                0x35: accumulator >= k,
                0x45: bool(accumulator & k),
            }[operation]
            counter += yes if hit else no


def verdict(plan: FilterPlan, arch: str, name: str, *arguments: int) -> str:
    nr = number(arch, name)
    assert nr is not None
    return decide(build_filter(plan, arch), AUDIT_ARCH[arch], nr, *arguments)


@pytest.mark.parametrize("arch", ARCHES)
def test_call_through_another_architecture_is_killed(arch: str) -> None:
    """Its numbers mean other calls; nothing else ever kills."""
    program = build_filter(CLOSED, arch)
    assert decide(program, 0x40000003, 11) == "kill"
    for nr in range(600):
        assert decide(program, AUDIT_ARCH[arch], nr) != "kill"


@pytest.mark.parametrize("arch", ARCHES)
def test_unknown_and_x32_calls_are_absent(arch: str) -> None:
    """Newer than the table, or with the x32 bit: ENOSYS."""
    program = build_filter(OPEN, arch)
    for nr in (463, 500, 0x40000000, 0x40000029, 0xFFFFFFFF):
        assert decide(program, AUDIT_ARCH[arch], nr) == "ENOSYS"


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize(
    ("flags", "closed", "open_"),
    [
        (17, "EPERM", "allow"),
        (0x3D0F00, "allow", "allow"),
        (0x3D0F00 | 0x20000000, "EPERM", "EPERM"),
        (0x10000000 | 17, "EPERM", "EPERM"),
        (0x00020000 | 17, "EPERM", "EPERM"),
        (0x4000 | 0x100 | 17, "EPERM", "allow"),
    ],
    ids=["fork", "thread", "thread+newpid", "newuser", "newns", "vfork"],
)
def test_clone_is_judged_by_its_flags(arch: str, flags: int, closed: str, open_: str) -> None:
    """Threads always, processes by grant, namespaces never."""
    assert verdict(CLOSED, arch, "clone", flags) == closed
    assert verdict(OPEN, arch, "clone", flags) == open_
    assert verdict(OPEN, arch, "clone3") == "ENOSYS"


@pytest.mark.parametrize("arch", ARCHES)
def test_socket_families_follow_the_network_grant(arch: str) -> None:
    """AF_UNIX only where it can reach nothing of the host."""
    plans = {
        "none": CLOSED,
        "none+contained": CLOSED._replace(processes=True, unix_sockets=True),
        "host": CLOSED._replace(network="host"),
        "host+contained": CLOSED._replace(network="host", unix_sockets=True),
    }
    families = {"unix": (1, 1), "inet": (2, 1), "inet6": (10, 2), "netlink": (16, 3, 0),
                "audit": (16, 3, 9), "packet": (17, 3), "vsock": (40, 1)}  # fmt: skip
    allowed = {
        name: {f for f, a in families.items() if verdict(plan, arch, "socket", *a) == "allow"}
        for name, plan in plans.items()
    }
    assert allowed == {
        "none": set(),
        "none+contained": {"unix"},
        "host": {"inet", "inet6", "netlink"},
        "host+contained": {"unix", "inet", "inet6", "netlink"},
    }


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize(
    ("family", "kind", "wanted"),
    [
        (1, 1, "allow"),
        (1, 5 | 0o2000000, "allow"),
        (1, 2, "EAFNOSUPPORT"),
        (1, 2 | 0o4000, "EAFNOSUPPORT"),
        (2, 1, "EAFNOSUPPORT"),
    ],
)
def test_socket_pairs_are_connected_ones_only(
    arch: str, family: int, kind: int, wanted: str
) -> None:
    """A datagram pair could be aimed at the host; flags in the type do not confuse."""
    assert verdict(CLOSED, arch, "socketpair", family, kind, 0) == wanted


@pytest.mark.parametrize("arch", ARCHES)
def test_calls_about_processes_work_on_oneself_only(arch: str) -> None:
    """kill, tgkill, prlimit, setpriority, pidfd_open: own number or zero."""
    for name, own, other in (
        ("kill", (7, 9), (8, 9)),
        ("kill", (0, 9), (-1, 9)),
        ("tgkill", (7, 7, 6), (8, 8, 6)),
        ("tkill", (7, 6), (1, 6)),
        ("pidfd_open", (7, 0), (1, 0)),
        ("prlimit64", (0, 7), (8, 7)),
        ("prlimit64", (7, 7), (1, 7)),
        ("setpriority", (0, 0, 5), (0, 8, 5)),
        ("setpriority", (0, 0, 5), (2, 0, 5)),
        ("ioprio_set", (1, 0, 0), (1, 8, 0)),
    ):
        assert verdict(CLOSED, arch, name, *own) == "allow", name
        assert verdict(CLOSED, arch, name, *other) == "EPERM", name
    assert verdict(OPEN, arch, "kill", -1, 9) == "EPERM"
    assert verdict(OPEN, arch, "kill", 8, 9) == "allow"


@pytest.mark.parametrize("arch", ARCHES)
def test_arguments_decide_for_calls_with_good_and_bad_uses(arch: str) -> None:
    """mmap, ioctl, fcntl, prctl, mknodat, personality: the bad use alone is refused."""
    for name, good, bad, code in (
        ("mmap", (0, 1, 3, 0x22), (0, 1, 3, 0x21), "ENOMEM"),
        ("mmap", (0, 1, 3, 0x01), (0, 1, 3, 0x100021), "ENOMEM"),
        ("ioctl", (0, 0x5401), (0, 0x5412), "EPERM"),
        ("ioctl", (0, 0x5413), (0, 0x541C | 1 << 32), "EPERM"),
        ("fcntl", (0, 4), (0, 8), "EPERM"),
        ("fcntl", (0, 1030), (0, 1024), "EPERM"),
        ("prctl", (15,), (1,), "EPERM"),
        ("mknodat", (-100, 0, 0o010644), (-100, 0, 0o020666), "EPERM"),
        ("mknodat", (-100, 0, 0o100644), (-100, 0, 0o060666), "EPERM"),
        ("personality", (0xFFFFFFFF,), (0x0040000,), "EPERM"),
    ):
        assert verdict(CLOSED, arch, name, *good) == "allow", name
        assert verdict(CLOSED, arch, name, *bad) == code, name
    assert verdict(OPEN, arch, "mmap", 0, 1, 3, 0x21) == "allow"


@pytest.mark.parametrize("arch", ARCHES)
def test_execution_is_refused_after_the_start_of_a_forked_worker(arch: str) -> None:
    """Kind ``python`` never executes; kind ``exec`` has to once, so Landlock decides there."""
    assert verdict(CLOSED, arch, "execve") == "EPERM"
    assert verdict(CLOSED._replace(initial_exec=True), arch, "execve") == "allow"
    assert verdict(CLOSED._replace(initial_exec=True), arch, "execveat") == "EPERM"
    assert verdict(OPEN, arch, "execveat") == "allow"


@pytest.mark.parametrize("arch", ARCHES)
def test_everyday_calls_are_allowed_by_the_tightest_filter(arch: str) -> None:
    """A filter that blocks everything must not pass."""
    everyday = {
        "x86_64": [0, 1, 2, 3, 5, 9, 10, 12, 13, 24, 39, 60, 202, 228, 231, 257, 262, 318, 332],
        "aarch64": [63, 64, 56, 57, 80, 214, 226, 134, 172, 93, 98, 113, 94, 79, 278, 291],
    }[arch]
    program = build_filter(CLOSED, arch)
    assert {decide(program, AUDIT_ARCH[arch], nr) for nr in everyday} == {"allow"}


@pytest.mark.parametrize("arch", ARCHES)
def test_no_file_gets_a_set_id_bit(arch: str) -> None:
    """A set-user-ID file of root in the working directory would outlive the sandbox."""
    for plan in (OPEN, CLOSED):
        for name, before in (("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2)):
            if number(arch, name) is None:
                continue
            for mode in (0o4755, 0o2755, 0o6000):
                assert verdict(plan, arch, name, *[0] * before, mode) == "EPERM", (name, oct(mode))
            assert verdict(plan, arch, name, *[0] * before, 0o1777) == "allow", name
        for flags in (0o100, 0o20200002):
            assert verdict(plan, arch, "openat", 0, 0, flags, 0o4700) == "EPERM"
            assert verdict(plan, arch, "openat", 0, 0, flags, 0o700) == "allow"
        assert verdict(plan, arch, "openat", 0, 0, 0o2, 0o7777) == "allow"
        assert verdict(plan, arch, "openat2") == "ENOSYS"
        assert verdict(plan, arch, "mknodat", -100, 0, 0o104755) == "EPERM"
        assert verdict(plan, arch, "mknodat", -100, 0, 0o002755) == "EPERM"
    if number(arch, "open") is not None:
        assert verdict(CLOSED, arch, "open", 0, 0o100, 0o2700) == "EPERM"
        assert verdict(CLOSED, arch, "creat", 0, 0o4700) == "EPERM"


@pytest.mark.parametrize("arch", ARCHES)
def test_only_a_new_session_is_asked_for_and_only_where_somebody_answers(arch: str) -> None:
    """P02: a call that is asked for and has nobody to answer it fails, so the default is not to."""
    setsid, fork = number(arch, "setsid"), number(arch, "clone")
    assert setsid is not None
    assert fork is not None
    asking = build_filter(OPEN._replace(ask_for_sessions=True), arch)
    assert decide(asking, AUDIT_ARCH[arch], setsid) == "ask"
    assert decide(asking, AUDIT_ARCH[arch], fork, 17) == "allow"
    assert decide(build_filter(OPEN, arch), AUDIT_ARCH[arch], setsid) == "allow"
