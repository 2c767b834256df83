"""New user, mount, PID, IPC, UTS and network namespaces around one worker.

The user namespace comes first and makes the others possible without privilege; it
maps the caller's own uid and gid to themselves, so files look as they did. The
process that unshares cannot enter the new PID namespace itself: it forks PID 1
(``stub.py``), tells the launcher its number and ends, so that PID 1 becomes the
launcher's own child.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
from typing import TYPE_CHECKING

from .steps import StepFailed, step
from .syscalls import libc_call, prctl, write_file

if TYPE_CHECKING:
    from .child import Report
    from .request import SpawnRequest

__all__ = ["HINTS", "enter", "enter_user_namespace", "loopback_up", "unshare_rest"]

_CLONE_NEWNS, _CLONE_NEWUTS, _CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
_CLONE_NEWUSER, _CLONE_NEWPID, _CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
_PR_SET_DUMPABLE = 4
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1

HINTS = {
    "userns": "allow unprivileged user namespaces: user.max_user_namespaces above 0, on Debian "
    "kernel.unprivileged_userns_clone=1; in Docker run with a seccomp profile that permits "
    "unshare and clone with CLONE_NEWUSER",
    "uid_map": "Ubuntu's AppArmor restricts user namespaces: add a profile with 'userns,' for "
    "this program, or set kernel.apparmor_restrict_unprivileged_userns=0",
    "namespaces": "Ubuntu's AppArmor restricts user namespaces: add a profile with 'userns,' for "
    "this program, or set kernel.apparmor_restrict_unprivileged_userns=0",
    "mounts": "the container or a security module forbids mounts in a user namespace; allow "
    "mount in its seccomp and AppArmor profiles",
    "loopback": "a security module forbids configuring a private network interface; add an "
    "AppArmor profile with 'userns,' for this program",
}


def enter_user_namespace() -> None:
    """Enter a new user namespace in which this uid and gid are themselves.

    Raises:
        StepFailed: ``"userns"`` or ``"uid_map"``.
    """
    uid, gid = os.geteuid(), os.getegid()
    # The files below belong to root while this process is not dumpable.
    prctl(_PR_SET_DUMPABLE, 1)
    with step("userns"):
        libc_call("unshare", _CLONE_NEWUSER)
    with step("uid_map"):
        write_file("/proc/self/setgroups", "deny")
        write_file("/proc/self/uid_map", f"{uid} {uid} 1")
        write_file("/proc/self/gid_map", f"{gid} {gid} 1")
    prctl(_PR_SET_DUMPABLE, 0)


def unshare_rest(*, network: bool) -> list[str]:
    """Unshare everything but the user namespace; return the kinds now private."""
    flags = _CLONE_NEWNS | _CLONE_NEWPID | _CLONE_NEWIPC | _CLONE_NEWUTS
    kinds = ["user", "mount", "pid", "ipc", "uts"]
    if network:
        flags |= _CLONE_NEWNET
        kinds.append("net")
    with step("namespaces"):
        libc_call("unshare", flags)
    return kinds


def loopback_up() -> None:
    """Bring up ``lo`` in this network namespace."""
    with step("loopback"), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sH22x", b"lo", 0)
        answer = fcntl.ioctl(sock, _SIOCGIFFLAGS, request)
        flags = struct.unpack("16sH22x", answer)[1]
        fcntl.ioctl(sock, _SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", flags | _IFF_UP))
        answer = fcntl.ioctl(sock, _SIOCGIFFLAGS, request)
        if not struct.unpack("16sH22x", answer)[1] & _IFF_UP:
            raise StepFailed("loopback", errno.EIO, "lo did not stay up")


def enter(request: SpawnRequest, report: Report) -> list[str]:
    """Go on as PID 1 of new namespaces; the calling process reports and ends.

    Returns:
        The kinds of namespaces now private, in the new process only.
    """
    enter_user_namespace()
    kinds = unshare_rest(network=request.plan.network != "host")
    with step("namespaces"):
        pid = os.fork()
    if pid:
        report.send({"stub": pid})
        os._exit(0)
    os.setsid()
    if request.plan.network == "loopback":
        loopback_up()
    # The host keeps its name: tools and providers are asked about this host.
    return kinds
