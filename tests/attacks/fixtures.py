"""The world that attacks aim at: secrets, a victim, listeners, a decoy. Made once."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import secrets
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workers.launcher.syscall_table import number

__all__ = ["MARK", "World", "open_world", "tree_state"]

MARK = "rawattack"
"""Begins the name of every file and process that an attack makes outside its own places."""

_TEMP = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/mnt", "/")
_CALLS = (
    "add_key", "bpf", "clone3", "fsopen", "io_uring_setup", "kcmp", "kexec_load", "keyctl",
    "mount", "open_by_handle_at", "perf_event_open", "personality", "pidfd_getfd", "pidfd_open",
    "process_vm_readv", "process_vm_writev", "ptrace", "request_key", "setns", "shmget", "unshare",
    "userfaultfd", "init_module", "finit_module", "modify_ldt", "iopl", "msgget", "semget",
    "move_mount", "open_tree", "pivot_root", "chroot", "swapon", "reboot", "syslog", "quotactl",
    "process_madvise", "prlimit64", "sched_setaffinity", "setpriority", "memfd_create", "execveat",
    "pidfd_send_signal", "kill", "tgkill", "mount_setattr", "fanotify_init", "settimeofday",
    "sethostname", "acct", "lookup_dcookie", "io_setup", "mq_open", "move_pages", "clone", "vfork",
    "io_uring_enter", "io_uring_register", "ioprio_set", "chmod", "fchmodat2", "removexattr",
)  # fmt: skip
_PLAIN = {"exit": (60, 93), "exit_group": (231, 94)}
"""Calls that the filter has no rule for by number, on x86_64 and on aarch64."""


@dataclass(slots=True)
class World:
    """Paths, ports and processes outside every grant, and what may not change about them.

    Args:
        base: Holds everything; removed by its maker.
        mark: In names that attacks give; its own, since two suites may run at once. Fits
            into the 15 bytes of a process's name.
        tokens: T1 in a file, T2 in the supervisor's environment, T3 in another worker.
    """

    base: Path
    mark: str
    tokens: dict[str, str]
    secret: Path
    victim: Path
    decoy: subprocess.Popen[bytes]
    listeners: dict[str, socket.socket] = field(default_factory=dict)

    def facts(self) -> dict[str, Any]:
        """Return what handlers are told, as ``w``: no token is among it."""
        arch = platform.machine()
        return {
            "secret": str(self.secret),
            "hidden": str(self.secret.parent),
            "victim": str(self.victim),
            "bait": str(self.base / "bait.txt"),
            "base": str(self.base),
            "mark": self.mark,
            "supervisor": os.getpid(),
            "decoy": self.decoy.pid,
            "tcp4": self.listeners["tcp4"].getsockname()[1],
            "tcp6": self.listeners["tcp6"].getsockname()[1] if "tcp6" in self.listeners else 9,
            "udp": self.listeners["udp"].getsockname()[1],
            "unix": str(self.base / "s.sock"),
            "unix_dgram": str(self.base / "d.sock"),
            "abstract": self.listeners["abstract"].getsockname().decode().lstrip("\0"),
            "home": os.path.expanduser("~"),
            "maps": {str(pid): mapping_of(pid) for pid in (os.getpid(), self.decoy.pid)},
            "nr": {
                **{name: n for name in _CALLS if (n := number(arch, name)) is not None},
                **{name: n for name, row in _PLAIN.items() if (n := row[arch != "x86_64"])},
            },
        }

    def poll_listeners(self) -> list[str]:
        """Return what has reached any listener since the last time."""
        ready, _, _ = select.select(list(self.listeners.values()), [], [], 0)
        seen = []
        for name, sock in self.listeners.items():
            if sock not in ready:
                continue
            if sock.type == socket.SOCK_DGRAM:
                seen.append(f"{name}: {sock.recv(4096)!r:.80}")
                continue
            peer, _ = sock.accept()
            with contextlib.closing(peer):
                peer.settimeout(0.2)
                try:
                    data = peer.recv(4096)
                except OSError:
                    data = b""
            seen.append(f"{name}: a connection, {data!r:.80}")
        return seen

    def state(self) -> dict[str, Any]:
        """Return what must not change: files outside grants and marked litter anywhere."""
        return {
            "hidden": tree_state(self.base / "hidden"),
            "tools": tree_state(self.base / "config" / "tools"),
            "litter": sorted(
                str(path)
                for top in (*_TEMP, os.path.expanduser("~"))
                for path in Path(top).glob(f"*{self.mark}*")
            ),
            "decoy": self.decoy.poll(),
        }

    def leaked(self, text: str) -> list[str]:
        """Return the names of the tokens that a text holds."""
        return [name for name, token in self.tokens.items() if token in text]


def mapping_of(pid: int) -> int | None:
    """Return the address of a page that a process has mapped for reading only.

    A write that gets through fails there, with a code that is no refusal. ``None`` for a
    process that does not let this user look.
    """
    try:
        with open(f"/proc/{pid}/maps") as maps:
            return next(int(line.partition("-")[0], 16) for line in maps if " r--p " in line)
    except PermissionError:
        return None


def tree_state(top: Path) -> dict[str, tuple[Any, ...]]:
    """Return mode, times and digest of everything below a folder."""
    out: dict[str, tuple[Any, ...]] = {}
    for path in sorted(top.rglob("*")):
        info = path.lstat()
        digest = ""
        if path.is_file() and not path.is_symlink():
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
        xattrs = tuple(os.listxattr(path, follow_symlinks=False))
        out[str(path.relative_to(top))] = (
            info.st_mode, info.st_uid, info.st_mtime_ns, info.st_nlink, digest, xattrs
        )  # fmt: skip
    return out


def _listen(base: Path, mark: str) -> dict[str, socket.socket]:
    made: dict[str, socket.socket] = {}
    places: list[tuple[str, int, int, Any]] = [
        ("tcp4", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
        ("tcp6", socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0)),
        ("udp", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
        ("unix", socket.AF_UNIX, socket.SOCK_STREAM, str(base / "s.sock")),
        ("unix_dgram", socket.AF_UNIX, socket.SOCK_DGRAM, str(base / "d.sock")),
        ("abstract", socket.AF_UNIX, socket.SOCK_STREAM, f"\0{mark}-x"),
    ]
    for name, family, kind, address in places:
        sock = socket.socket(family, kind)
        try:
            sock.bind(address)
        except OSError:
            sock.close()
            if name != "tcp6":  # a host may be without IPv6
                raise
            continue
        if kind == socket.SOCK_STREAM:
            sock.listen(64)
        sock.setblocking(False)
        made[name] = sock
    return made


@contextlib.contextmanager
def open_world(base: Path) -> Iterator[World]:
    """Make the fixture set below ``base``, which has to exist and to be empty."""
    tokens = {name: f"{name}-{secrets.token_hex(16)}" for name in ("T1", "T2", "T3")}
    hidden = base / "hidden"
    hidden.mkdir()
    secret, victim = hidden / "secret.txt", hidden / "victim.txt"
    secret.write_text(tokens["T1"])
    victim.write_text("intact")
    victim.chmod(0o640)
    with contextlib.suppress(OSError):  # a file system may have no attributes
        os.setxattr(victim, "user.kept", b"1")
    os.utime(victim, (1_600_000_000, 1_600_000_000))
    (base / "bait.txt").write_text("for metadata that a tier is known not to protect")
    os.environ["RAW_ATTACK_SECRET"] = tokens["T2"]
    decoy = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", "import time; time.sleep(86400)"],
        env={"DECOY_SECRET": tokens["T2"]},
        stdin=subprocess.DEVNULL,
    )
    world = World(base, MARK + secrets.token_hex(3), tokens, secret, victim, decoy)
    try:
        world.listeners = _listen(base, world.mark)
        (base / "config" / "tools").mkdir(parents=True)
        yield world
    finally:
        os.environ.pop("RAW_ATTACK_SECRET", None)
        decoy.kill()
        decoy.wait()
        for sock in world.listeners.values():
            sock.close()
