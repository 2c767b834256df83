"""A copy-on-write view of each writable tree: the tree below, changes in the scratch above.

The tree itself is cloned read-only and is only ever a lower layer. The upper layer lies on
the worker's own tmpfs, so its quota bounds what a call may change, and it is mounted nowhere
in the private root: inside, only the merged tree has a name. The supervisor reads it through
a descriptor that outlives the worker.

Nothing below is listed or copied first: a view of any tree costs the same to open.

Not covered: reads are live. A file that was not looked at yet is seen as it is when the
worker looks, not as it was when the view was mounted.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import NamedTuple

from .cgroup import unescape
from .copytree import copy_tree
from .steps import StepFailed
from .trees import (
    MS_NODEV,
    MS_NOSUID,
    MS_RDONLY,
    clone_here,
    detach,
    mount,
    move_mount,
    set_attributes,
)

__all__ = ["ViewRoot", "copy_view", "examine_root", "mount_view", "try_view"]

_OPTIONS = "userxattr,index=off,metacopy=off"


class ViewRoot(NamedTuple):
    """One writable tree under a view.

    Args:
        path: Real path of the tree.
        upper: Its upper layer, relative to the worker's own tmpfs.
        device: Of the tree's top directory.
        inode: Of the tree's top directory.
        mode: Permission bits that the upper layer's top directory is made with.
        read_only: Nobody can change the tree, so the view can't be changed either.
        copied: The upper layer is a whole copy of the tree, listed in ``copytree.MANIFEST``.
    """

    path: str
    upper: str
    device: int
    inode: int
    mode: int
    read_only: bool
    copied: bool = False


def examine_root(path: str, number: int, source: int) -> ViewRoot:
    """See that a view of a tree hides or bares nothing, and decide how it is laid out.

    Args:
        path: Real path of the tree.
        number: Of the view, for names.
        source: Descriptor of the tree's top.

    Raises:
        StepFailed: With step ``"view"``: not a directory, or something is mounted inside it.
    """
    status = os.fstat(source)
    if not stat.S_ISDIR(status.st_mode):
        raise StepFailed(
            "view",
            errno.ENOTDIR,
            f"{path!r} is granted for writing and is not a folder; a view needs a folder, "
            "so grant the one it lies in",
        )
    nested = _mounts_inside(path, source)
    if nested:
        more = f" and {len(nested) - 1} more" if len(nested) > 1 else ""
        # The kernel would show the directory below the mount instead of what is mounted.
        raise StepFailed(
            "view",
            errno.EBUSY,
            f"something is mounted inside {path!r}, at {nested[0]!r}{more}; a view can't "
            "hold other mounts, so grant folders without any",
        )
    # Asked now: a clone is read-only in any case, and later the tree has no name.
    return ViewRoot(
        path,
        f"view-{number}/upper",
        status.st_dev,
        status.st_ino,
        _top_mode(source, status),
        bool(os.fstatvfs(source).f_flag & os.ST_RDONLY),
    )


def _mounts_inside(path: str, source: int) -> list[str]:
    with open(f"/proc/self/fdinfo/{source}", "rb") as lines:
        ours = next(line.split()[1] for line in lines if line.startswith(b"mnt_id:"))
    found = []
    prefix = path.rstrip("/") + "/"
    with open("/proc/self/mountinfo", "rb") as mounts:
        for line in mounts:
            fields = line.split(b" ", 5)
            if fields[1] == ours:
                point = unescape(os.fsdecode(fields[4]))
                if point.startswith(prefix):
                    found.append(point)
    return found


def copy_view(scratch: str, root: ViewRoot, tree: int, limit_bytes: int) -> tuple[int, int]:
    """Make a copy of a cloned tree to work on, where no view of it can be mounted.

    Args:
        scratch: Where the worker's own tmpfs is mounted.
        root: What ``examine_root`` said.
        tree: Detached clone of the tree.
        limit_bytes: Of room that the copy may take.

    Returns:
        A detached mount of the copy, and the room it takes.

    Raises:
        StepFailed: With step ``"copy"``.
    """
    place = os.path.dirname(f"{scratch}/{root.upper}")
    for path in (place, f"{place}/upper"):
        os.mkdir(path, 0o700)
    used = copy_tree(tree, place, root.path, limit_bytes)
    os.chmod(f"{place}/upper", root.mode)
    over = os.open(place, os.O_PATH | os.O_CLOEXEC)
    try:
        copy = clone_here(over, "upper")
    finally:
        os.close(over)
    if root.read_only:
        set_attributes(copy, MS_RDONLY, recursive=False)
    return copy, used


def mount_view(stage: str, scratch: str, root: ViewRoot, tree: int) -> int:
    """Put a view over a cloned tree; return a detached mount of the merged tree.

    Args:
        stage: Directory to mount on meanwhile; holds ``lower`` and ``merged``.
        scratch: Where the worker's own tmpfs is mounted.
        root: What ``examine_root`` said.
        tree: Detached read-only clone of it; attached nowhere afterwards.

    Raises:
        StepFailed: With step ``"overlay"``.
    """
    upper = f"{scratch}/{root.upper}"
    work = f"{os.path.dirname(upper)}/work"
    for path in (os.path.dirname(upper), upper, work):
        os.mkdir(path, 0o700)
    os.chmod(upper, root.mode)
    lower, merged = f"{stage}/lower", f"{stage}/merged"
    point = os.open(lower, os.O_PATH | os.O_CLOEXEC)
    try:
        move_mount(tree, point)
    finally:
        os.close(point)
    options = f"lowerdir={lower},upperdir={upper},workdir={work},{_OPTIONS}"
    flags = MS_NOSUID | MS_NODEV | (MS_RDONLY if root.read_only else 0)
    try:
        mount("overlay", merged, "overlay", flags, options)
    except OSError as exc:
        code = errno.errorcode.get(exc.errno or 0, "?")
        raise StepFailed(
            "overlay",
            exc.errno or 0,
            f"{code}: no copy-on-write view of {root.path!r} can be mounted: {exc.strerror}; its "
            "file system may not be fit for a lower layer",
        ) from exc
    over = os.open(stage, os.O_PATH | os.O_CLOEXEC)
    try:
        view = clone_here(over, "merged")
    finally:
        os.close(over)
    detach(merged)
    detach(lower)
    return view


def _top_mode(source: int, status: os.stat_result) -> int:
    """Return the mode of the upper layer's top, which is what the merged tree shows.

    It can't have another owner than us. Where the tree has, the owner's bits say what we
    may do there, so that the worker is refused now what a commit would be refused later.
    """
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid == os.geteuid():
        return mode
    allowed = 0
    for bit in (os.R_OK, os.W_OK, os.X_OK):
        if os.access(f"/proc/self/fd/{source}", bit, effective_ids=True):
            allowed |= bit
    return mode & ~(stat.S_ISUID | stat.S_ISGID | stat.S_IRWXU) | allowed << 6


def try_view(directory: str) -> None:
    """Mount a view in an empty directory of one's own and see that it does what is needed.

    Called inside a private root, where Python finds no module any more, codecs included, and where
    ``/proc`` may be missing.

    Raises:
        StepFailed: ``"overlay"`` when it can't be mounted, ``"overlay_xattr"`` when a
            replaced directory or a removed file can't be told in its upper layer.
    """
    stage, scratch, below = f"{directory}/stage", f"{directory}/scratch", f"{directory}/below"
    for path in (stage, f"{stage}/lower", f"{stage}/merged", scratch, below, f"{below}/folder"):
        os.mkdir(path)
    for name in ("kept", "gone", "folder/hidden"):
        with open(f"{below}/{name}", "wb") as file:
            file.write(b"below")
    here = os.open(directory, os.O_PATH | os.O_CLOEXEC)
    tree = clone_here(here, "below")
    os.close(here)
    root = ViewRoot(below, "view-0/upper", 0, 0, 0o755, False)
    view = mount_view(stage, scratch, root, tree)
    os.close(tree)
    point = os.open(f"{stage}/merged", os.O_PATH | os.O_CLOEXEC)
    move_mount(view, point)
    os.close(point)
    os.close(view)
    merged, upper = f"{stage}/merged", f"{scratch}/{root.upper}"
    try:
        with open(f"{merged}/kept", "ab") as file:
            file.write(b" and above")
        os.unlink(f"{merged}/gone")
        os.unlink(f"{merged}/folder/hidden")
        os.rmdir(f"{merged}/folder")
        os.mkdir(f"{merged}/folder")
        marks = os.listxattr(f"{upper}/folder", follow_symlinks=False)
        whiteout = os.lstat(f"{upper}/gone")
    except OSError as exc:
        code = errno.errorcode.get(exc.errno or 0, "?")
        raise StepFailed("overlay_xattr", exc.errno or 0, f"{code}: {exc.strerror}") from exc
    with open(f"{below}/kept", "rb") as file:
        if file.read() != b"below" or os.listdir(merged) == os.listdir(below):
            raise StepFailed("overlay", 0, "a write in the view reached the tree below")
    if "user.overlay.opaque" not in marks or not stat.S_ISCHR(whiteout.st_mode):
        raise StepFailed(
            "overlay_xattr", errno.EOPNOTSUPP, "a tmpfs can't hold the marks of an upper layer"
        )
    detach(merged)
