"""What this host can enforce, found out by doing it in throw-away children.

Looking is not enough: ``/sys/kernel/security/lsm`` may be missing where Landlock
works, and ``unshare`` may succeed where the mounts after it are refused. Every
probe runs a child that must both still do what is allowed and be denied what is
not. Results are kept for the launcher's life; nothing is left behind.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
from collections.abc import Callable
from typing import Any

from . import caps, landlock, mounts, namespaces, seccomp, view
from .cgroup import CgroupRoot
from .plan import HostPlan
from .protocol import PeerClosed, receive, send
from .steps import StepFailed, step

__all__ = ["SIMULATIONS", "Probe"]

SIMULATIONS = ("no-landlock", "no-seccomp", "no-userns", "no-mounts", "no-cgroup", "no-overlay")
_PLAN = HostPlan(
    read=(),
    write=(),
    exec=(),
    network="none",
    processes=False,
    tier="baseline",
    use=(),
    sandbox=True,
    rlimits={},
    memory_bytes=64 << 20,
    scratch_bytes=1 << 20,
    pids_max=16,
)
_HINTS = {
    "landlock": "needs Linux 5.13 or newer with CONFIG_SECURITY_LANDLOCK and 'landlock' in the "
    "lsm= boot list; in a container its seccomp profile must permit the landlock calls",
    "seccomp": "needs CONFIG_SECCOMP_FILTER on x86_64 or aarch64",
    "overlay": "a copy-on-write view needs Linux 5.11 or newer with overlayfs (CONFIG_OVERLAY_FS, "
    "or 'modprobe overlay') and a security module that permits the mount; without one, a profile "
    "with copy_bytes works on a copy",
    "overlay_xattr": "a copy-on-write view needs user extended attributes in tmpfs: Linux 6.6 or "
    "newer with CONFIG_TMPFS_XATTR; without them, a profile with copy_bytes works on a copy",
    "cgroup": "needs a writable cgroup: start with 'systemd-run --user --scope -p Delegate=yes', "
    "or give the container a private, writable cgroup namespace",
    **namespaces.HINTS,
}
Step = Callable[[], dict[str, Any] | None]


def _in_child(work: Step, facts: dict[str, Any] | None = None) -> StepFailed | None:
    """Run ``work`` in a forked child; return how it failed, if it did.

    Args:
        work: Its dictionary, if it returns one, is sent back.
        facts: Where that is put.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            signal.set_wakeup_fd(-1)
            try:
                send(theirs, {"ok": True, **(work() or {})})
            except StepFailed as exc:
                send(theirs, exc.as_dict())
            except Exception as exc:
                text = f"{type(exc).__name__}: {exc}"
                send(theirs, StepFailed("probe", 0, text).as_dict())
        finally:
            os._exit(0)
    theirs.close()
    try:
        ours.settimeout(10)
        message, _ = receive(ours)
    except (PeerClosed, TimeoutError, ValueError):
        message = {"step": "probe", "errno": 0, "message": "the probe's process ended early"}
        os.kill(pid, signal.SIGKILL)
    finally:
        ours.close()
    os.waitpid(pid, 0)
    if facts is not None:
        facts.update(message)
    if message.get("ok"):
        return None
    return StepFailed(message["step"], message["errno"], message["message"])


def _expect_denied(name: str, attempt: Callable[[], object], wanted: tuple[int, ...]) -> None:
    try:
        attempt()
    except OSError as exc:
        if exc.errno in wanted:
            return
        code = errno.errorcode.get(exc.errno or 0, "?")
        raise StepFailed(name, exc.errno or 0, f"was denied with {code}, not as expected") from exc
    raise StepFailed(name, 0, "is accepted by the kernel but does not deny")


def _probe_landlock() -> None:
    with step("landlock"):
        abi = landlock.abi_version()
        caps.set_no_new_privs()
        landlock.restrict(
            abi=abi, read=["/proc/self"], write=[], execute=[], network=False, sockets=False
        )
        os.close(os.open("/proc/self/status", os.O_RDONLY | os.O_CLOEXEC))
    _expect_denied("landlock", lambda: os.listdir("/"), (errno.EACCES,))


def _probe_seccomp() -> None:
    seccomp.check_supported()
    with step("seccomp"):
        caps.set_no_new_privs()
        plan = seccomp.FilterPlan(
            processes=False,
            initial_exec=False,
            network="none",
            unix_sockets=False,
            private_ipc=False,
            shared_memory_capped=False,
            read_only_outside=False,
            own_pid=os.getpid(),
        )
        seccomp.install(seccomp.build_filter(plan))
        os.getcwd()
    _expect_denied("seccomp", os.fork, (errno.EPERM,))
    _expect_denied("seccomp", lambda: socket.socket(socket.AF_INET), (errno.EAFNOSUPPORT,))


def _probe_namespaces() -> dict[str, Any]:
    """Do everything a spawn does: map, unshare, loopback, root, proc, pivot, hide.

    Returns:
        How a copy-on-write view failed in there, as ``overlay``; ``None`` when it did not.
    """
    namespaces.enter_user_namespace()
    namespaces.unshare_rest(network=True)
    namespaces.loopback_up()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        # PID 1 of the new namespace: only there can a fresh /proc be mounted.
        try:
            try:
                mounts.enter_root(_PLAN)
                if os.getpid() != 1:
                    raise StepFailed("namespaces", 0, "the PID namespace is not in force")
                if os.path.exists("/usr"):
                    raise StepFailed("mounts", 0, "the old root is still visible")
                send(theirs, {"ok": True, "overlay": _probe_overlay()})
            except StepFailed as exc:
                send(theirs, exc.as_dict())
            except Exception as exc:
                text = f"{type(exc).__name__}: {exc}"
                send(theirs, StepFailed("probe", 0, text).as_dict())
        finally:
            os._exit(0)
    theirs.close()
    message, _ = receive(ours)
    os.waitpid(pid, 0)
    if not message.get("ok"):
        raise StepFailed(message["step"], message["errno"], message["message"])
    return {"overlay": message["overlay"]}


def _probe_overlay() -> dict[str, object] | None:
    """Try a view inside a private root; it is a lack of its own, not one of namespaces."""
    try:
        with step("overlay"):
            view.try_view(mounts.PRIVATE_MOUNT + "/home")
    except StepFailed as failure:
        return failure.as_dict()
    return None


def _probe_cgroup(groups: CgroupRoot) -> StepFailed | None:
    """Make a leaf, set its limits, move a child into it."""
    if groups.failure is not None:
        return groups.failure
    try:
        leaf = groups.make_leaf(_PLAN)
    except StepFailed as exc:
        return exc

    def join() -> None:
        with step("cgroup"):
            for path in leaf.join_files:
                fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
                try:
                    os.write(fd, b"0")
                finally:
                    os.close(fd)
            for path in leaf.join_files:
                with open(path, encoding="ascii") as members:
                    if str(os.getpid()) not in members.read().split():
                        raise StepFailed("cgroup", 0, f"moving a process into {path} had no effect")

    try:
        return _in_child(join)
    finally:
        leaf.remove()


class Probe:
    """The host's abilities, probed once and kept."""

    def __init__(self) -> None:
        self.absent: set[str] = set()
        self._found: dict[str, Any] | None = None

    def simulate(self, names: object) -> None:
        """Act as if features were absent. For tests and for trying out a poorer host.

        Raises:
            ValueError: A name that is not in ``SIMULATIONS``.
        """
        if not isinstance(names, list) or any(name not in SIMULATIONS for name in names):
            raise ValueError(f"simulate is {names!r:.80}; names are {', '.join(SIMULATIONS)}")
        self.absent = set(names)

    def capabilities(self, groups: CgroupRoot, *, again: bool = False) -> dict[str, Any]:
        """Return CAPS; the first call (or ``again``) runs the probes."""
        if self._found is None or again:
            self._found = self._probe(groups)
        return self._found

    def _probe(self, groups: CgroupRoot) -> dict[str, Any]:
        abi = 0
        try:
            abi = landlock.abi_version()
        except OSError:
            pass  # Said by the probe below, with the reason.
        land = self._run("no-landlock", "landlock", _probe_landlock)
        facts: dict[str, Any] = {}
        spaces = self._run("no-userns", "userns", _probe_namespaces, facts)
        if "no-mounts" in self.absent and spaces["works"]:
            spaces = _described(
                StepFailed("mounts", errno.EPERM, "EPERM: simulated: mounts are refused")
            )
        overlay = self._overlay(spaces, facts.get("overlay"))
        failure = _probe_cgroup(groups)
        group = {
            **_described(failure),
            "version": groups.version if failure is None else None,
            "path": next(iter(groups.groups.values()), None),
            "controllers": sorted(groups.groups),
        }
        return {
            "landlock": {**land, "abi": abi if land["works"] else 0},
            "seccomp": self._run("no-seccomp", "seccomp", _probe_seccomp),
            "namespaces": {
                **spaces,
                "kinds": ["user", "mount", "pid", "ipc", "uts", "net"] if spaces["works"] else [],
            },
            "cgroup": group,
            "overlay": overlay,
            "uid": os.getuid(),
            "euid": os.geteuid(),
            "kernel": os.uname().release,
            "arch": os.uname().machine,
        }

    def _overlay(self, spaces: dict[str, Any], failed: Any) -> dict[str, Any]:
        """Describe whether views work: they need a mount namespace that works."""
        if not spaces["works"]:
            return {**spaces, "message": f"a view needs namespaces: {spaces['message']}"}
        if "no-overlay" in self.absent:
            failed = {"step": "overlay", "errno": errno.ENODEV, "message": "ENODEV: simulated"}
        if failed is None:
            return _described(None)
        return _described(StepFailed(failed["step"], failed["errno"], failed["message"]))

    def _run(
        self, simulation: str, name: str, work: Step, facts: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        if simulation in self.absent:
            return _described(StepFailed(name, errno.ENOSYS, f"ENOSYS: simulated: {simulation}"))
        return _described(_in_child(work, facts))


def _described(failure: StepFailed | None) -> dict[str, Any]:
    if failure is None:
        return {"works": True, "step": None, "errno": None, "message": None, "hint": None}
    return {
        "works": False,
        **failure.as_dict(),
        "hint": _HINTS.get(failure.step),
    }
