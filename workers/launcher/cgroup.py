"""Control groups: hard caps on memory and processes, a verdict on OOM, a total kill.

One group per launcher (named after its process id and start time, so that a dead
launcher's group is recognised and removed), one leaf per spawn. Version 2 when
its memory and pids controllers can be had, else version 1 controller by controller.

Version 2 forbids processes in inner groups: enabling a controller where we live
fails with EBUSY. In a delegated scope that holds nobody but the supervisor and the
launcher, both are moved to a leaf first; anyone else in there is left alone and
the tier is not available.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from typing import Any

from .plan import HostPlan
from .steps import StepFailed, step
from .syscalls import write_file

__all__ = ["CgroupRoot", "Leaf", "parse_membership", "parse_mounts", "unescape"]

_PREFIX = "raw_exec."
_WANTED = ("memory", "pids", "cpu")
_NEEDED = ("memory", "pids")
_KILL_SECONDS = 2.0
_RMDIR_SECONDS = 0.5


def parse_membership(text: str) -> dict[str, str]:
    """Read ``/proc/self/cgroup``: controller to path; ``""`` is version 2."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            found[controller] = path
    return found


def parse_mounts(text: str) -> dict[str, tuple[str, str]]:
    """Read ``/proc/self/mountinfo``: controller to (root, mount point); ``""`` is version 2."""
    found: dict[str, tuple[str, str]] = {}
    for line in text.splitlines():
        fields, _, tail = line.partition(" - ")
        kind, _, rest = tail.partition(" ")
        if kind not in ("cgroup", "cgroup2"):
            continue
        parts = fields.split()
        place = (unescape(parts[3]), unescape(parts[4]))
        if kind == "cgroup2":
            found.setdefault("", place)
        else:
            for option in rest.rpartition(" ")[2].split(","):
                found.setdefault(option, place)
    return found


def unescape(text: str) -> str:
    """Return a path as it is, from a field of ``/proc/self/mountinfo``."""
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, char)
    return text


def _read(*parts: str) -> str:
    with open(os.path.join(*parts), encoding="ascii", errors="replace") as file:
        return file.read()


def _write(value: str, *parts: str) -> None:
    write_file(os.path.join(*parts), value)


def _start_time(pid: int) -> str | None:
    try:
        return _read(f"/proc/{pid}/stat").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None


def _members(directory: str) -> list[int]:
    try:
        return [int(word) for word in _read(directory, "cgroup.procs").split()]
    except OSError:
        return []


def _kill_members(directory: str) -> int:
    """Kill every process of one group until none is left; return how many were hit."""
    try:
        _write("1", directory, "cgroup.kill")
    except OSError:
        pass  # Version 1, or a kernel before 5.14.
    try:
        _write("0", directory, "pids.max")
    except OSError:
        pass  # Not the group of the pids controller.
    hit: set[int] = set()
    end = time.monotonic() + _KILL_SECONDS
    while time.monotonic() < end:
        alive = [pid for pid in _members(directory) if pid > 0 and pid != os.getpid()]
        if not alive:
            break
        for pid in alive:
            try:
                handle = os.pidfd_open(pid)
            except OSError:
                continue
            try:
                # Race: the number may have been reused; a member is a member.
                if pid in _members(directory):
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
                    hit.add(pid)
            except OSError:
                pass
            finally:
                os.close(handle)
        time.sleep(0.002)
    return len(hit)


def _remove(directory: str) -> None:
    end = time.monotonic() + _RMDIR_SECONDS
    while True:
        try:
            os.rmdir(directory)
            return
        except FileNotFoundError:
            return
        except OSError as exc:
            if exc.errno != errno.EBUSY or time.monotonic() > end:
                return
            time.sleep(0.002)


class Leaf:
    """The group of one spawn.

    Args:
        version: ``"v1"`` or ``"v2"``.
        directories: Controller to directory; all the same one in version 2.
        limit: Bytes of memory, 0 for no limit.
    """

    __slots__ = ("directories", "limit", "memory_capped", "version")

    def __init__(self, version: str, directories: dict[str, str], limit: int) -> None:
        self.version = version
        self.directories = directories
        self.limit = limit
        self.memory_capped = limit > 0

    @property
    def join_files(self) -> list[str]:
        """Files a process writes ``0`` to, to become a member."""
        return sorted({os.path.join(d, "cgroup.procs") for d in self.directories.values()})

    def kill(self) -> int:
        """Kill every member now; return how many were alive."""
        return _kill_members(self.directories["pids"])

    def oom(self) -> dict[str, Any] | None:
        """Return the evidence when the kernel killed a member for memory."""
        name = "memory.events" if self.version == "v2" else "memory.oom_control"
        try:
            lines = _read(self.directories["memory"], name).splitlines()
        except OSError:
            return None
        counts = dict(line.split() for line in lines if len(line.split()) == 2)
        kills = int(counts.get("oom_kill", "0"))
        if not kills:
            return None
        return {
            "source": "cgroup",
            "oom_kills": kills,
            "limit_bytes": self.limit,
            "peak_bytes": self.peak(),
        }

    def peak(self) -> int | None:
        """Return the highest memory use so far, in bytes, when the kernel keeps it."""
        name = "memory.peak" if self.version == "v2" else "memory.max_usage_in_bytes"
        try:
            return int(_read(self.directories["memory"], name))
        except (OSError, ValueError):
            return None

    def remove(self) -> None:
        """Remove the group; its members must be gone."""
        for directory in sorted(set(self.directories.values())):
            _remove(directory)


class CgroupRoot:
    """Where this launcher's leaves are made.

    Nothing is touched before ``open``; a host without usable groups is described
    by ``failure``, never an exception.
    """

    def __init__(self) -> None:
        self.version: str | None = None
        self.groups: dict[str, str] = {}
        self.failure: StepFailed | None = StepFailed("cgroup", 0, "not opened")
        self._serial = 0

    def open(self, *, enabled: bool, proc: str = "/proc/self") -> None:
        """Find the hierarchies, make this launcher's group, remove dead launchers' ones."""
        self.failure = None
        try:
            if not enabled:
                raise StepFailed("cgroup", errno.ENOENT, "simulated: no cgroup")
            with step("cgroup"):
                membership = parse_membership(_read(proc, "cgroup"))
                mounts = parse_mounts(_read(proc, "mountinfo"))
            bases = self._bases(membership, mounts)
            name = f"{_PREFIX}{os.getpid()}.{_start_time(os.getpid())}"
            if self.version == "v2":
                self._open_v2(bases[""], name)
            else:
                self._open_v1(bases, name)
        except StepFailed as exc:
            self.failure = exc
            self.close()

    def _bases(
        self, membership: dict[str, str], mounts: dict[str, tuple[str, str]]
    ) -> dict[str, str]:
        bases: dict[str, str] = {}
        for controller in ("", *_WANTED):
            if controller in mounts and controller in membership:
                root, point = mounts[controller]
                path = os.path.relpath(membership[controller], root)
                if not path.startswith(".."):
                    bases[controller] = os.path.normpath(os.path.join(point, path))
        if "" in bases:
            try:
                offered = _read(bases[""], "cgroup.controllers").split()
            except OSError:
                offered = []
            if all(controller in offered for controller in _NEEDED):
                self.version = "v2"
                return bases
        if all(controller in bases for controller in _NEEDED):
            self.version = "v1"
            return bases
        raise StepFailed("cgroup", errno.ENOENT, "no memory and pids controllers are mounted")

    def _open_v1(self, bases: dict[str, str], name: str) -> None:
        for controller in _WANTED:
            base = bases.get(controller)
            if base is None:
                continue
            group = os.path.join(base, name)
            try:
                _clean_stale(base)
                os.mkdir(group)
            except FileExistsError:
                pass  # Two controllers mounted together.
            except OSError as exc:
                if controller in _NEEDED:
                    raise StepFailed(
                        "cgroup", exc.errno or 0, f"cannot make a group in {base}: {exc.strerror}"
                    ) from exc
                continue
            self.groups[controller] = group

    def _open_v2(self, base: str, name: str) -> None:
        try:
            _clean_stale(base)
            self._enable(base, name)
            group = os.path.join(base, name)
            os.mkdir(group)
            self.groups = dict.fromkeys(_WANTED, group)
            _enable_controllers(group)
        except OSError as exc:
            raise StepFailed(
                "cgroup", exc.errno or 0, f"cannot use {base}: {exc.strerror}"
            ) from exc

    def _enable(self, base: str, name: str) -> None:
        try:
            _enable_controllers(base)
        except OSError as exc:
            if exc.errno != errno.EBUSY:
                raise
            # Ours alone? Then a delegated scope: make room by moving to a leaf.
            if not set(_members(base)) <= {os.getpid(), os.getppid()}:
                raise
            home = os.path.join(base, name + ".home")
            os.mkdir(home)
            for pid in _members(base):
                _write(str(pid), home, "cgroup.procs")
            _enable_controllers(base)

    def make_leaf(self, plan: HostPlan, *, files_in_memory: bool = False) -> Leaf:
        """Make a group with the plan's limits.

        Args:
            plan: For the limits.
            files_in_memory: The private directory is a tmpfs, whose pages are counted
                here as well: its quota is added to the memory limit.

        Raises:
            StepFailed: When a limit cannot be set; nothing is left behind.
        """
        if self.failure is not None or self.version is None:
            raise self.failure or StepFailed("cgroup", 0, "no groups on this host")
        self._serial += 1
        directories = {c: os.path.join(g, str(self._serial)) for c, g in self.groups.items()}
        limit = plan.memory_bytes
        if limit and files_in_memory:
            limit += plan.scratch_bytes
        leaf = Leaf(self.version, directories, limit)
        try:
            with step("cgroup"):
                for directory in sorted(set(directories.values())):
                    os.mkdir(directory)
                self._limit(leaf, plan)
        except StepFailed:
            leaf.remove()
            raise
        return leaf

    def _limit(self, leaf: Leaf, plan: HostPlan) -> None:
        memory, pids = leaf.directories["memory"], leaf.directories["pids"]
        if plan.pids_max:
            _write(str(plan.pids_max), pids, "pids.max")
        if leaf.limit and leaf.version == "v2":
            _write(str(leaf.limit), memory, "memory.max")
            _write_optional("0", memory, "memory.swap.max")
            _write_optional("1", memory, "memory.oom.group")
        elif leaf.limit:
            _write(str(leaf.limit), memory, "memory.limit_in_bytes")
            _write_optional(str(leaf.limit), memory, "memory.memsw.limit_in_bytes")
        cpu = leaf.directories.get("cpu")
        if cpu is not None:
            # Half the usual weight: the supervisor is served first on a busy host.
            _write_optional("50", cpu, "cpu.weight")
            _write_optional("512", cpu, "cpu.shares")

    def close(self) -> None:
        """Remove this launcher's groups; its spawns must be gone."""
        for group in sorted(set(self.groups.values())):
            _clean_group(group)
        self.groups = {}


def _enable_controllers(directory: str) -> None:
    for controller in _WANTED:
        try:
            _write(f"+{controller}", directory, "cgroup.subtree_control")
        except OSError:
            if controller in _NEEDED:
                raise


def _write_optional(value: str, *parts: str) -> None:
    try:
        _write(value, *parts)
    except OSError:
        pass  # A file this kernel or version does not have.


def _clean_group(group: str) -> None:
    try:
        leaves = [entry.path for entry in os.scandir(group) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return
    for leaf in leaves:
        _kill_members(leaf)
        _remove(leaf)
    _remove(group)


def _clean_stale(base: str) -> None:
    """Remove groups whose launcher is dead, with what still runs in them."""
    for entry in os.scandir(base):
        if not entry.name.startswith(_PREFIX) or not entry.is_dir(follow_symlinks=False):
            continue
        pid, _, start = entry.name[len(_PREFIX) :].partition(".")
        if not pid.isdigit() or _start_time(int(pid)) == start.removesuffix(".home"):
            continue
        if entry.name.endswith(".home"):
            _remove(entry.path)
        else:
            _clean_group(entry.path)
