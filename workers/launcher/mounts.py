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

Where the plan wants a view, a writable tree is cloned read-only like the others and what
is attached at its path is a copy-on-write view of it (``view.py``).
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from .landlock import DEVICES
from .plan import HostPlan
from .steps import StepFailed, step
from .syscalls import syscall
from .trees import (
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    RESOLVE_BENEATH,
    RESOLVE_NO_SYMLINKS,
    clone_here,
    clone_tree,
    detach,
    mount,
    move_mount,
    openat2,
    set_attributes,
)
from .view import ViewRoot, copy_view, examine_root, mount_view

if TYPE_CHECKING:
    from .child import Report
    from .request import SpawnRequest

__all__ = ["Entered", "Layout", "Root", "build_root", "derive_layout", "enter_root"]

_MS_REC, _MS_PRIVATE = 0x4000, 1 << 18
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV, _ATTR_NOEXEC = 1, 2, 4, 8

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
                step_fd = openat2(current, part, os.O_PATH | os.O_DIRECTORY, RESOLVE_NO_SYMLINKS)
            except FileNotFoundError:
                if os.fstat(current).st_dev != self.device:
                    os.close(current)
                    return None
                os.mkdir(part, 0o755, dir_fd=current)
                step_fd = openat2(current, part, os.O_PATH | os.O_DIRECTORY, RESOLVE_NO_SYMLINKS)
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
                return openat2(parent, name, os.O_PATH, RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH)
            except FileNotFoundError:
                if os.fstat(parent).st_dev != self.device:
                    return None
            if directory:
                os.mkdir(name, 0o755, dir_fd=parent)
            else:
                os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o444, dir_fd=parent))
            return openat2(parent, name, os.O_PATH, RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH)
        finally:
            os.close(parent)

    def attach(self, tree: int, path: str) -> bool:
        """Attach a detached tree at ``path``."""
        directory = stat.S_ISDIR(os.fstat(tree).st_mode)
        point = self.mount_point(path, directory=directory)
        if point is None:
            return False
        try:
            move_mount(tree, point)
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


def _mount_scratch(point: str, plan: HostPlan, layout: Layout) -> int:
    """Mount the worker's own tmpfs, one quota for all its parts; return a descriptor."""
    os.mkdir(point, 0o755)
    size = max(plan.scratch_bytes, 64 * 1024) if plan.scratch_bytes else 64 << 20
    files = max(65536, size // 4096)
    flags = MS_NOSUID | MS_NODEV | (0 if plan.processes else MS_NOEXEC)
    mount("tmpfs", point, "tmpfs", flags, f"mode=0755,size={size},nr_inodes={files}")
    top = os.open(point, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for name in ("home", *layout.private.values()):
        os.mkdir(name, 0o700, dir_fd=top)
    return top


def _attach_private(root: _NewRoot, top: int, parts: dict[str, str]) -> None:
    for path, name in parts.items():
        tree = clone_here(top, name)
        root.attach(tree, path)
        os.close(tree)


def _mount_proc(target: str) -> bool:
    """Mount a fresh ``/proc``; containers that mask theirs refuse it (``False``)."""
    try:
        # Shows only what the reader may trace: its own tree, and not the stub above it.
        mount("proc", target, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "hidepid=4")
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


class Entered(NamedTuple):
    """A private root that this mount namespace is now in.

    Args:
        layout: What was laid out.
        scratch: Descriptor of the worker's own tmpfs.
        proc: A fresh ``/proc`` could be mounted.
        views: The copy-on-write views, when the plan wants them.
    """

    layout: Layout
    scratch: int
    proc: bool
    views: list[ViewRoot]


def enter_root(plan: HostPlan) -> Entered:
    """Build the private root in this (new) mount namespace and move into it.

    Raises:
        StepFailed: With step ``"mounts"``; ``"view"`` or ``"overlay"`` when a view of a
            writable tree can't be had.
    """
    with step("mounts"):
        layout = derive_layout(plan)
        mount("none", "/", None, _MS_REC | _MS_PRIVATE)
        read_only = _ATTR_RDONLY | _ATTR_NOSUID | _ATTR_NODEV
        trees: dict[str, int] = {}
        views: list[ViewRoot] = []
        for path, writable in layout.binds.items():
            if writable and plan.view:
                tree = _clone_below(path, read_only, views)
            else:
                changeable = _ATTR_NOSUID | _ATTR_NODEV
                tree = clone_tree(path, changeable if writable else read_only)
            if tree is not None:
                trees[path] = tree
        for path in DEVICES:
            tree = clone_tree(path, _ATTR_NOSUID | _ATTR_NOEXEC)
            if tree is not None:
                trees[path] = tree
        base = _find_base()
        mount("tmpfs", base, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=4m,nr_inodes=8192")
        root = _NewRoot(base)
        if plan.view:
            private = _mount_views(base, plan, layout, trees, views)
        else:
            private = _mount_scratch(base + PRIVATE_MOUNT, plan, layout)
        for path, tree in trees.items():
            root.attach(tree, path)
            os.close(tree)
        for name, target in _DEVICE_LINKS.items():
            root.link(name, target)
        for path, target in layout.links.items():
            root.link(path, target)
        _attach_private(root, private, layout.private)
        if plan.view:
            _attach_private(root, private, {f"{PRIVATE_MOUNT}/home": "home"})
            _leave_stage(base)
        os.mkdir(base + "/proc", 0o555)
        proc = _mount_proc(base + "/proc")
        set_attributes(root.fd, read_only, recursive=False)
        os.chdir(base)
        syscall("pivot_root", b".", b".")
        detach(".")
        os.chdir("/")
        os.close(root.fd)
    return Entered(layout, private, proc, views)


def _clone_below(path: str, attributes: int, views: list[ViewRoot]) -> int | None:
    """Clone a tree that a view is to be put over, and note how in ``views``."""
    return clone_tree(
        path, attributes, lambda source: views.append(examine_root(path, len(views), source))
    )


def _mount_views(
    base: str, plan: HostPlan, layout: Layout, trees: dict[str, int], views: list[ViewRoot]
) -> int:
    """Replace each writable tree in ``trees`` by a view of it; return the own tmpfs.

    Security: that tmpfs holds the upper layers, so it has no name in the private root;
    only its parts that are the worker's own are attached there.
    """
    stage = base + "/.stage"
    scratch = stage + "/scratch"
    for path in (stage, stage + "/lower", stage + "/merged"):
        os.mkdir(path, 0o700)
    private = _mount_scratch(scratch, plan, layout)
    left = plan.copy_bytes
    for number, root in enumerate(views):
        if plan.copy_bytes:
            merged, used = copy_view(scratch, root, trees[root.path], left)
            views[number], left = root._replace(copied=True), left - used
        else:
            merged = mount_view(stage, scratch, root, trees[root.path])
        os.close(trees[root.path])
        trees[root.path] = merged
    return private


def _leave_stage(base: str) -> None:
    detach(f"{base}/.stage/scratch")
    for name in ("lower", "merged", "scratch", ""):
        os.rmdir(f"{base}/.stage/{name}")


def build_root(request: SpawnRequest, report: Report) -> Root:
    """Move into a private root and send the launcher its tmpfs, to measure and empty."""
    entered = enter_root(request.plan)
    views = [view._asdict() for view in entered.views]
    report.send({"scratch_fd": True, "views": views}, (entered.scratch,))
    os.close(entered.scratch)
    return Root(f"{PRIVATE_MOUNT}/home", list(entered.layout.private), entered.proc)
