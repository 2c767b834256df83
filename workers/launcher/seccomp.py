"""The system call filter: a default-allow list of what no tool may do.

Rules of this file:
1. Calls newer than the table, and calls that libraries fall back from (clone3,
   io_uring, memfd), fail with ENOSYS. Everything else fails with EPERM. Nothing
   is killed except a call through another architecture's ABI, which would not
   be numbered as this filter believes.
2. A filter sees registers, never what a pointer points at. So sockets are refused
   at creation, by family, and ``clone3`` and ``openat2`` (flags behind a pointer)
   never work.
3. Same-uid neighbours can be harmed by more than signals: priorities, resource
   limits, ownership of file events. Those calls work on oneself only.

Does not cover: pathname arguments (Landlock), what an open descriptor can do.
"""

from __future__ import annotations

import ctypes
import errno
import os
from typing import NamedTuple

from .bpf import Program, allow, ask, error
from .steps import StepFailed
from .syscall_table import AUDIT_ARCH, FIRST_UNKNOWN, number
from .syscalls import ARCH, prctl, syscall

__all__ = ["FilterPlan", "build_filter", "install"]

_EPERM, _ENOSYS = error(errno.EPERM), error(errno.ENOSYS)
_EAFNOSUPPORT = error(errno.EAFNOSUPPORT)

_FORBIDDEN = (
    "acct", "add_key", "bpf", "chroot", "clock_settime", "create_module", "delete_module",
    "fanotify_init", "fanotify_mark", "finit_module", "fsconfig", "fsmount", "fsopen", "fspick",
    "get_kernel_syms", "init_module", "ioperm", "iopl", "kcmp", "kexec_file_load", "kexec_load",
    "keyctl", "lsm_set_self_attr", "migrate_pages", "modify_ldt", "mount", "mount_setattr",
    "move_mount", "move_pages", "name_to_handle_at", "open_by_handle_at", "open_tree",
    "perf_event_open", "pidfd_getfd", "pivot_root", "process_madvise", "process_mrelease",
    "process_vm_readv", "process_vm_writev", "ptrace", "query_module", "quotactl", "quotactl_fd",
    "reboot", "request_key", "sched_setaffinity", "sched_setattr", "sched_setparam",
    "sched_setscheduler", "setdomainname", "sethostname", "setns", "settimeofday", "swapoff",
    "swapon", "syslog", "umount2", "unshare", "userfaultfd", "vhangup", "adjtimex",
    "clock_adjtime",
)  # fmt: skip
_ABSENT = (
    "_sysctl", "clone3", "io_setup", "io_uring_enter", "io_uring_register", "io_uring_setup",
    "listmount", "lookup_dcookie", "lsm_get_self_attr", "lsm_list_modules", "memfd_secret",
    "nfsservctl", "openat2", "statmount", "sysfs", "uselib", "ustat", "vserver",
)  # fmt: skip
_SYSTEM_V = (
    "mq_open", "mq_unlink", "msgctl", "msgget", "msgrcv", "msgsnd", "semctl", "semget", "semop",
    "semtimedop", "shmat", "shmctl", "shmdt", "shmget",
)  # fmt: skip
_XATTR = (
    "fremovexattr", "fsetxattr", "lremovexattr", "lsetxattr", "removexattr", "setxattr",
)  # fmt: skip
_CHOWN = ("chown", "fchown", "fchownat", "lchown")

_CLONE_THREAD, _CLONE_NEW = 0x00010000, 0x7E020000
_MAP_SHARED_ANONYMOUS = 0x21
_S_IFMT, _S_IFIFO, _S_IFREG, _S_IFSOCK = 0o170000, 0o010000, 0o100000, 0o140000
_SET_ID = 0o6000
_MAKES_A_FILE = 0o100 | 0o20000000  # O_CREAT, and what O_TMPFILE adds to O_DIRECTORY
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_SOCK_STREAM, _SOCK_SEQPACKET = 1, 5
# TIOCSTI, TIOCLINUX and TIOCSETD feed or reshape a terminal; FIOSETOWN and
# SIOCSPGRP aim a signal at another process.
_IOCTLS = (0x5412, 0x541C, 0x5423, 0x8901, 0x8902)
# F_SETOWN and F_SETOWN_EX aim SIGIO (or any signal) at another process; F_SETLEASE
# holds up whoever opens a shared file next.
_FCNTLS = (8, 15, 1024)
_PR_SET_PDEATHSIG = 1
_PERSONALITY_QUERY, _PERSONALITY_LINUX = 0xFFFFFFFF, 0


class FilterPlan(NamedTuple):
    """What the filter has to know.

    Args:
        processes: New processes and programs are allowed.
        initial_exec: The worker is yet to be executed (kind ``exec``).
        network: ``"none"``, ``"loopback"`` or ``"host"``.
        unix_sockets: Unix sockets can reach nothing outside the grants (a mount namespace,
            or Landlock ABI 9), so a plan that grants more than files may make them.
        private_ipc: System V IPC lives in a namespace of its own.
        shared_memory_capped: A memory cgroup counts anonymous shared mappings.
        read_only_outside: A mount namespace guards metadata outside the grants.
        own_pid: The worker's process id in its own PID namespace.
        ask_for_sessions: Whoever gets the listener decides each ``setsid``.
    """

    processes: bool
    initial_exec: bool
    network: str
    unix_sockets: bool
    private_ipc: bool
    shared_memory_capped: bool
    read_only_outside: bool
    own_pid: int
    ask_for_sessions: bool = False


class _Filter:
    """Adds blocks by call name, skipping what the architecture lacks."""

    def __init__(self, arch: str) -> None:
        self.arch = arch
        self.program = Program(AUDIT_ARCH[arch])

    def deny(self, names: tuple[str, ...], verdict: int) -> None:
        for name in names:
            nr = number(self.arch, name)
            if nr is not None:
                self.program.call(nr, verdict)

    def only(self, name: str, index: int, values: tuple[int, ...], verdict: int = _EPERM) -> None:
        nr = number(self.arch, name)
        if nr is not None:
            self.program.argument_in(nr, index, values, allow, verdict)

    def never_all(self, name: str, tests: tuple[tuple[int, int], ...]) -> None:
        nr = number(self.arch, name)
        if nr is not None:
            self.program.all_have(nr, tests, _EPERM, allow)

    def never(self, name: str, index: int, values: tuple[int, ...], verdict: int = _EPERM) -> None:
        nr = number(self.arch, name)
        if nr is not None:
            self.program.argument_in(nr, index, values, verdict, allow)


def _processes(out: _Filter, plan: FilterPlan) -> None:
    clone = number(out.arch, "clone")
    assert clone is not None  # noqa: S101 - a row of our own table
    if plan.processes:
        out.program.all_have(clone, ((0, _CLONE_NEW),), _EPERM, allow)
        # Security: -1 means everyone; outside a PID namespace that is the host.
        out.never("kill", 0, (0xFFFFFFFF,))
        return
    out.program.all_in(
        clone,
        ((0, _CLONE_THREAD, (_CLONE_THREAD,)), (0, _CLONE_NEW, (0,))),
        allow,
        _EPERM,
    )
    out.deny(("fork", "vfork", "execveat", "pidfd_send_signal"), _EPERM)
    if not plan.initial_exec:
        out.deny(("execve",), _EPERM)
    out.deny(("memfd_create",), _ENOSYS)
    own = (plan.own_pid,)
    out.only("kill", 0, (*own, 0))
    for name in ("tgkill", "tkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_open"):
        out.only(name, 0, own)


def _sockets(out: _Filter, plan: FilterPlan) -> None:
    socket, pair = number(out.arch, "socket"), number(out.arch, "socketpair")
    assert socket is not None and pair is not None  # noqa: S101, PT018 - rows of our own table
    families: tuple[int, ...] = ()
    any_unix = plan.unix_sockets and (plan.processes or plan.network != "none")
    if any_unix:
        families += (_AF_UNIX,)
    if plan.network != "none":
        families += (_AF_INET, _AF_INET6)
    if plan.network != "none":
        # Name lookups ask the kernel for its addresses by the routing protocol (0),
        # where a process without capabilities can only read.
        out.program.either(
            socket,
            (((0, families),), ((0, (_AF_NETLINK,)), (2, (0,)))),
            allow,
            _EAFNOSUPPORT,
        )
    elif families:
        out.program.argument_in(socket, 0, families, allow, _EAFNOSUPPORT)
    else:
        out.program.call(socket, _EAFNOSUPPORT)
    if any_unix:
        out.program.argument_in(pair, 0, (_AF_UNIX,), allow, _EAFNOSUPPORT)
    else:
        # Security: a datagram pair can be re-aimed by sendto at any pathname socket that can
        # be seen, and a granted folder may hold one of the host's.
        out.program.all_in(
            pair,
            ((0, 0xFFFFFFFF, (_AF_UNIX,)), (1, 0xF, (_SOCK_STREAM, _SOCK_SEQPACKET))),
            allow,
            _EAFNOSUPPORT,
        )


def _modes(out: _Filter) -> None:
    """Refuse set-user-ID and set-group-ID bits: whoever runs the file later is not confined."""
    for name, index in (("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2)):
        out.never_all(name, ((index, _SET_ID),))
    out.never_all("creat", ((1, _SET_ID),))
    # Without these flags the mode is whatever the register held.
    out.never_all("open", ((1, _MAKES_A_FILE), (2, _SET_ID)))
    out.never_all("openat", ((2, _MAKES_A_FILE), (3, _SET_ID)))
    for name, index in (("mknod", 1), ("mknodat", 2)):
        nr = number(out.arch, name)
        if nr is not None:
            harmless = ((index, _S_IFMT | _SET_ID, (0, _S_IFREG, _S_IFIFO, _S_IFSOCK)),)
            out.program.all_in(nr, harmless, allow, _EPERM)


def build_filter(plan: FilterPlan, arch: str = ARCH) -> bytes:
    """Return the BPF program for ``plan``. Pure; any supported ``arch`` on any host."""
    out = _Filter(arch)
    # Covers the x32 ABI too: its numbers have bit 30 set.
    out.program.at_least(FIRST_UNKNOWN, _ENOSYS)
    _processes(out, plan)
    _sockets(out, plan)
    out.deny(_FORBIDDEN, _EPERM)
    out.deny(_ABSENT, _ENOSYS)
    if not (plan.private_ipc and plan.processes):
        out.deny(_SYSTEM_V, _EPERM)
    if not plan.read_only_outside:
        out.deny(_XATTR, error(errno.EOPNOTSUPP))
        out.deny(_CHOWN, _EPERM)
    if not plan.processes and not plan.shared_memory_capped:
        mmap = number(arch, "mmap")
        assert mmap is not None  # noqa: S101 - a row of our own table
        bits = _MAP_SHARED_ANONYMOUS
        out.program.masked_in(mmap, 3, bits, (bits,), error(errno.ENOMEM), allow)
    if plan.ask_for_sessions:
        out.deny(("setsid",), ask)
    _modes(out)
    out.never("ioctl", 1, _IOCTLS)
    out.never("fcntl", 1, _FCNTLS)
    out.never("prctl", 0, (_PR_SET_PDEATHSIG,))
    out.only("personality", 0, (_PERSONALITY_QUERY, _PERSONALITY_LINUX))
    out.only("prlimit64", 0, (0, plan.own_pid) if not plan.processes else (0,))
    for name in ("setpriority", "ioprio_set"):
        nr = number(arch, name)
        which = 0 if name == "setpriority" else 1
        if nr is not None:
            out.program.all_in(
                nr, ((0, 0xFFFFFFFF, (which,)), (1, 0xFFFFFFFF, (0,))), allow, _EPERM
            )
    return out.program.finish()


class _ProgramHeader(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def install(program: bytes, *, listen: bool = False) -> int | None:
    """Put the filter in force for this thread, for good. Needs ``no_new_privs``.

    Args:
        program: From ``build_filter``.
        listen: The program asks (``FilterPlan.ask_for_sessions``).

    Returns:
        With ``listen`` the descriptor that is asked, close-on-exec.

    Raises:
        StepFailed: When the kernel does not report filter mode afterwards.
    """
    buffer = ctypes.create_string_buffer(program, len(program))
    header = _ProgramHeader(len(program) // 8, ctypes.addressof(buffer))
    set_mode_filter, new_listener = 1, 8
    flags = new_listener if listen else 0
    listener = syscall("seccomp", set_mode_filter, flags, ctypes.byref(header))
    get_seccomp, filter_mode = 21, 2
    if prctl(get_seccomp) != filter_mode:
        raise StepFailed("seccomp", 0, "the kernel does not report a filter in force")
    return listener if listen else None


def check_supported() -> None:
    """Raise ``StepFailed`` when the filter is not written for this machine."""
    if ARCH not in AUDIT_ARCH:
        known = ", ".join(sorted(AUDIT_ARCH))
        raise StepFailed(
            "seccomp", errno.ENOSYS, f"no filter for {os.uname().machine}; there is one for {known}"
        )
