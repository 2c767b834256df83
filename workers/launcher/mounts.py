"""A private file system root: only what the plan grants, at its own path.

Order of work, and why:
1. Resolve every grant on the host, link by link, so that ``/bin`` may be a link to
   ``usr/bin`` and still be ``/bin`` inside.
2. Clone each granted tree through a descriptor opened without following links, and
   set its attributes while it is attached nowhere: there is no moment in which it
   is visible and writable, and no name that another worker could swap meanwhile.
3. Attach parents before children on a fresh tmpfs. A mount point is created only
   on that tmpfs, never inside a granted tree.
4. Pivot into it and detach the old root, so hidden paths do not exist (ENOENT).

Grants add up: a read grant below a write grant does not take anything away.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from typing import TYPE_CHECKING, NamedTuple

from .landlock import DEVICES
from .plan import HostPlan
from .steps import StepFailed, step
from .syscalls import libc_call, syscall

if TYPE_CHECKING:
    from .child import Report
    from .request import SpawnRequest

__all__ = ["Layout", "Root", "build_root", "derive_layout", "enter_root"]

_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_PRIVATE = 2, 4, 8, 0x4000, 1 << 18
_MNT_DETACH = 2
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV, _ATTR_NOEXEC = 1, 2, 4, 8
_AT_FDCWD, _AT_EMPTY_PATH, _AT_RECURSIVE = -100, 0x1000, 0x8000
_OPEN_TREE_CLONE = 1
_MOVE_BY_DESCRIPTORS = 0x4 | 0x40
_RESOLVE_NO_SYMLINKS, _RESOLVE_BENEATH = 0x4, 0x8
_UNREACHABLE = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP, errno.EXDEV)

PRIVATE_MOUNT = "/scratch"
_PRIVATE = {"/tmp": "tmp", "/var/tmp": "vartmp", "/dev/shm": "shm"}  # noqa: S108 - inside only
_DEVICE_LINKS = {
    "/dev/fd": "/proc/self/fd",
    "/dev/stdin": "/proc/self/fd/0",
    "/dev/stdout": "/proc/self/fd/1",
    "/dev/stderr": "/proc/self/fd/2",
}
_OURS = ("/proc", "/dev", PRIVATE_MOUNT)


class Layout(NamedTuple):
    """What goes where in the private root. Plain data, derived by reading links.

    Args:
        binds: Real path to writable, parents before children.
        links: Path of a symbolic link to its target.
        private: Directories that are the worker's own, emptied with its scratch.
    """

    binds: dict[str, bool]
    links: dict[str, str]
    private: dict[str, str]


class Root(NamedTuple):
    """The root that was built, as the worker sees it.

    Args:
        scratch: The private directory for ``HOME`` and temporary files.
        writable: Other private directories.
        proc: A fresh ``/proc`` could be mounted.
    """

    scratch: str
    writable: list[str]
    proc: bool


def _is_within(path: str, top: str) -> bool:
    return path == top or path.startswith(top.rstrip("/") + "/")


def _resolve(path: str, links: dict[str, str]) -> str | None:
    """Follow ``path`` component by component, noting each link; ``None`` if missing."""
    todo = [part for part in reversed(path.split("/")) if part]
    done = ""
    for _ in range(256):
        if not todo:
            return done or "/"
        part = todo.pop()
        if part == ".":
            continue
        if part == "..":
            done = done.rpartition("/")[0]
            continue
        here = f"{done}/{part}"
        try:
            if stat.S_ISLNK(os.lstat(here).st_mode):
                target = os.readlink(here)
                links[here] = target
                todo += [piece for piece in reversed(target.split("/")) if piece]
                if target.startswith("/"):
                    done = ""
                continue
        except OSError:
            return None
        done = here
    return None


def derive_layout(plan: HostPlan) -> Layout:
    """Work out binds, links and private directories for a plan, on this host."""
    links: dict[str, str] = {}
    grants: dict[str, bool] = {}
    for paths, writable in ((plan.read, False), (plan.exec, False), (plan.write, True)):
        for path in paths:
            real = _resolve(path, links)
            if real is None:
                continue
            found = [real]
            if real == "/":
                # The root itself is ours; grant what lies in it instead.
                found = [f"/{name}" for name in os.listdir("/")]
                found = [p for p in found if not os.path.islink(p)]
            for item in found:
                if not any(_is_within(item, ours) for ours in _OURS) or _is_within(
                    item,
                    "/dev/shm",  # noqa: S108 - a grant of the operator, taken as it is
                ):
                    grants[item] = grants.get(item, False) or writable
    binds: dict[str, bool] = {}
    for path in sorted(grants, key=lambda p: (p.count("/"), p)):
        covering = [top for top in binds if _is_within(path, top)]
        nearest = max(covering, key=len, default=None)
        if nearest is not None and (binds[nearest] or not grants[path]):
            continue
        binds[path] = grants[path]
    private = {
        path: name
        for path, name in _PRIVATE.items()
        if not any(_is_within(top, path) for top in grants)
    }
    return Layout(binds, {k: v for k, v in links.items() if not k.startswith("/proc")}, private)


def _openat2(directory: int, path: str, flags: int, resolve: int) -> int:
    how = ctypes.create_string_buffer(struct.pack("=QQQ", flags | os.O_CLOEXEC, 0, resolve), 24)
    return syscall("openat2", directory, os.fsencode(path), how, 24)


def _set_attributes(fd: int, attributes: int, *, recursive: bool) -> None:
    wanted = ctypes.create_string_buffer(struct.pack("=QQQQ", attributes, 0, 0, 0), 32)
    flags = _AT_EMPTY_PATH | (_AT_RECURSIVE if recursive else 0)
    syscall("mount_setattr", fd, b"", flags, wanted, 32)


def _clone_tree(path: str, attributes: int) -> int | None:
    """Return a detached copy of the mounts at ``path``, or ``None`` when out of reach."""
    try:
        source = _openat2(_AT_FDCWD, path, os.O_PATH, _RESOLVE_NO_SYMLINKS)
    except OSError as exc:
        if exc.errno in _UNREACHABLE:
            return None
        raise
    try:
        tree = syscall(
            "open_tree",
            source,
            b"",
            _AT_EMPTY_PATH | _AT_RECURSIVE | _OPEN_TREE_CLONE | os.O_CLOEXEC,
        )
    finally:
        os.close(source)
    _set_attributes(tree, attributes, recursive=True)
    return tree


class _NewRoot:
    """The tmpfs under construction."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.fd = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.device = os.fstat(self.fd).st_dev

    def parent(self, path: str) -> tuple[int, str] | None:
        """Open the parent of ``path``, creating directories on the tmpfs only."""
        parts = path.strip("/").split("/")
        current = os.dup(self.fd)
        for part in parts[:-1]:
            try:
                step_fd = _openat2(current, part, os.O_PATH | os.O_DIRECTORY, _RESOLVE_NO_SYMLINKS)
            except FileNotFoundError:
                if os.fstat(current).st_dev != self.device:
                    os.close(current)
                    return None
                os.mkdir(part, 0o755, dir_fd=current)
                step_fd = _openat2(current, part, os.O_PATH | os.O_DIRECTORY, _RESOLVE_NO_SYMLINKS)
            os.close(current)
            current = step_fd
        return current, parts[-1]

    def mount_point(self, path: str, *, directory: bool) -> int | None:
        """Return a descriptor of ``path``, made on the tmpfs when it is not there."""
        place = self.parent(path)
        if place is None:
            return None
        parent, name = place
        try:
            try:
                return _openat2(parent, name, os.O_PATH, _RESOLVE_NO_SYMLINKS | _RESOLVE_BENEATH)
            except FileNotFoundError:
                if os.fstat(parent).st_dev != self.device:
                    return None
            if directory:
                os.mkdir(name, 0o755, dir_fd=parent)
            else:
                os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o444, dir_fd=parent))
            return _openat2(parent, name, os.O_PATH, _RESOLVE_NO_SYMLINKS | _RESOLVE_BENEATH)
        finally:
            os.close(parent)

    def attach(self, tree: int, path: str) -> bool:
        """Attach a detached tree at ``path``."""
        directory = stat.S_ISDIR(os.fstat(tree).st_mode)
        point = self.mount_point(path, directory=directory)
        if point is None:
            return False
        try:
            syscall("move_mount", tree, b"", point, b"", _MOVE_BY_DESCRIPTORS)
        except OSError as exc:
            exc.filename = path
            raise
        finally:
            os.close(point)
        return True

    def link(self, path: str, target: str) -> None:
        """Make a symbolic link, where nothing is and the tmpfs is below."""
        place = self.parent(path)
        if place is None:
            return
        parent, name = place
        try:
            if os.fstat(parent).st_dev == self.device:
                os.symlink(target, name, dir_fd=parent)
        except FileExistsError:
            pass
        finally:
            os.close(parent)


def _mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    libc_call(
        "mount",
        os.fsencode(source),
        os.fsencode(target),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        data.encode() or None,
    )


def _make_private(root: _NewRoot, plan: HostPlan, layout: Layout) -> int:
    """Mount the worker's own tmpfs, one quota for all its parts; return a descriptor."""
    point = root.base + PRIVATE_MOUNT
    os.mkdir(point, 0o755)
    size = max(plan.scratch_bytes, 64 * 1024) if plan.scratch_bytes else 64 << 20
    flags = _MS_NOSUID | _MS_NODEV | (0 if plan.processes else _MS_NOEXEC)
    _mount("tmpfs", point, "tmpfs", flags, f"mode=0755,size={size},nr_inodes=65536")
    top = os.open(point, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    os.mkdir("home", 0o700, dir_fd=top)
    for path, name in layout.private.items():
        os.mkdir(name, 0o700, dir_fd=top)
        tree = syscall("open_tree", top, name.encode(), _OPEN_TREE_CLONE | os.O_CLOEXEC)
        root.attach(tree, path)
        os.close(tree)
    return top


def _mount_proc(target: str) -> bool:
    """Mount a fresh ``/proc``; containers that mask theirs refuse it (``False``)."""
    try:
        # Shows only what the reader may trace: its own tree, and not the stub above it.
        _mount("proc", target, "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, "hidepid=4")
    except OSError as exc:
        if exc.errno in (errno.EPERM, errno.EACCES, errno.EBUSY):
            return False
        raise
    return True


def _find_base() -> str:
    """Return a directory to build the root on; it is only hidden in this namespace."""
    for path in ("/tmp", "/run", "/var", "/mnt", "/usr"):  # noqa: S108 - only a mount point
        if os.path.isdir(path) and not os.path.islink(path):
            return path
    raise StepFailed("mounts", errno.ENOENT, "no directory to build the private root on")


def enter_root(plan: HostPlan) -> tuple[Layout, int, bool]:
    """Build the private root in this (new) mount namespace and move into it.

    Returns:
        What was laid out, a descriptor of the worker's own tmpfs, and whether a
        fresh ``/proc`` could be mounted.

    Raises:
        StepFailed: With step ``"mounts"``.
    """
    with step("mounts"):
        layout = derive_layout(plan)
        _mount("none", "/", None, _MS_REC | _MS_PRIVATE)
        read_only = _ATTR_RDONLY | _ATTR_NOSUID | _ATTR_NODEV
        trees: dict[str, int] = {}
        for path, writable in layout.binds.items():
            tree = _clone_tree(path, _ATTR_NOSUID | _ATTR_NODEV if writable else read_only)
            if tree is not None:
                trees[path] = tree
        for path in DEVICES:
            tree = _clone_tree(path, _ATTR_NOSUID | _ATTR_NOEXEC)
            if tree is not None:
                trees[path] = tree
        base = _find_base()
        _mount("tmpfs", base, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=0755,size=4m,nr_inodes=8192")
        root = _NewRoot(base)
        for path, tree in trees.items():
            root.attach(tree, path)
            os.close(tree)
        for name, target in _DEVICE_LINKS.items():
            root.link(name, target)
        for path, target in layout.links.items():
            root.link(path, target)
        private = _make_private(root, plan, layout)
        os.mkdir(base + "/proc", 0o555)
        proc = _mount_proc(base + "/proc")
        _set_attributes(root.fd, read_only, recursive=False)
        os.chdir(base)
        syscall("pivot_root", b".", b".")
        libc_call("umount2", b".", _MNT_DETACH)
        os.chdir("/")
        os.close(root.fd)
    return layout, private, proc


def build_root(request: SpawnRequest, report: Report) -> Root:
    """Move into a private root and send the launcher its tmpfs, to measure and empty."""
    layout, private, proc = enter_root(request.plan)
    report.send({"scratch_fd": True}, (private,))
    os.close(private)
    return Root(f"{PRIVATE_MOUNT}/home", list(layout.private), proc)
