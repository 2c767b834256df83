"""Random trees, random scripts: a call on a view, committed, does what the script itself does."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from raw_exec.transactions.changes import ChangeSet
from raw_exec.transactions.coverage import not_done, uncovered
from requires import require
from tests.transactions.lab import Lab, Picture, has_views, on_tree, picture

NAMES = ("a", "b", "c")
PATHS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join)
TEXTS = st.sampled_from(("", "one\n", "two\n", "three\n" * 50))
OPERATIONS = st.one_of(
    st.tuples(st.just("write"), PATHS, TEXTS),
    st.tuples(st.just("append"), PATHS, TEXTS),
    st.tuples(st.just("unlink"), PATHS),
    st.tuples(st.just("mkdir"), PATHS),
    st.tuples(st.just("rmdir"), PATHS),
    st.tuples(st.just("rmtree"), PATHS),
    st.tuples(st.just("move"), PATHS, PATHS),
    st.tuples(st.just("rebuild"), PATHS, st.sampled_from(NAMES), TEXTS),
    st.tuples(st.just("symlink"), st.sampled_from(NAMES), PATHS),
    st.tuples(st.just("chmod"), PATHS, st.sampled_from((0o600, 0o644, 0o700, 0o755))),
)
SCRIPTS = st.lists(OPERATIONS, min_size=4, max_size=12)
TREES = st.lists(
    st.one_of(
        st.tuples(st.just("write"), PATHS, TEXTS),
        st.tuples(st.just("mkdir"), PATHS),
        st.tuples(st.just("symlink"), st.sampled_from(NAMES), PATHS),
    ),
    min_size=4,
    max_size=12,
)

RUNNER = '''
import errno, shutil, stat

def move(source, target):
    """Like mv: a directory of a lower layer is copied, where a plain rename is refused."""
    try:
        os.rename(source, target)
    except OSError as exc:
        if exc.errno != errno.EXDEV:
            raise
        if os.path.lexists(target):
            os.rmdir(target)
        shutil.copytree(source, target, symlinks=True)
        shutil.rmtree(source)

def write(path, text, mode="w"):
    if os.path.islink(path):
        return
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, mode) as file:
        file.write(text)

def rebuild(path, name, text):
    shutil.rmtree(path)
    write(os.path.join(path, name), text)

def chmod(path, mode):
    if not os.path.islink(path):
        os.chmod(path, mode | (0o700 if os.path.isdir(path) else 0))

DO = {
    "write": write, "append": lambda p, t: write(p, t, "a"), "unlink": os.unlink,
    "mkdir": os.makedirs, "rmdir": os.rmdir, "rmtree": shutil.rmtree, "move": move,
    "symlink": os.symlink, "chmod": chmod, "rebuild": rebuild,
}
for name, *arguments in OPERATIONS:
    try:
        DO[name](*arguments)
    except OSError:
        pass
'''


def source_of(operations: list[Any]) -> str:
    return f"OPERATIONS = {operations!r}\n{RUNNER}"


def is_dir(facts: tuple[Any, ...] | None) -> bool:
    return facts is not None and stat.S_ISDIR(facts[0])


def exact_effects(
    root: Path, before: Picture, after: Picture, found: ChangeSet
) -> tuple[list[dict[str, str]], list[int]]:
    """Return the effects that describe a change of a tree, and which of them can't be missed.

    They are worked out from pictures of the tree. The list of changes only says which
    directories were made anew, so that what is in them was written again.
    """
    rebuilt = [change.path for change in found.changes if change.opaque]

    def anew(path: bytes) -> bool:
        return any(path.startswith(top + b"/") for top in rebuilt)

    gone = {path for path in before if path not in after}
    gone |= {p for p in before if p in after and is_dir(before[p]) != is_dir(after[p])}
    tops = {p for p in gone if not any(p.startswith(other + b"/") for other in gone)}
    out: list[tuple[str, bytes, bool]] = [("delete", path, True) for path in sorted(tops)]
    written: set[bytes] = set()
    for path in sorted(after, key=lambda path: -path.count(b"/")):
        old, new = before.get(path), after[path]
        filled = any(other.startswith(path + b"/") for other in written)
        if not is_dir(new):
            needed = old != new or anew(path)
        elif is_dir(old) and not anew(path):
            if old != new:
                out.append(("write", path, False))
            continue
        else:
            needed = not filled
        if needed:
            written.add(path)
            out.append(("write", path, True))
    for path in written & {path for path in after if stat.S_ISLNK(after[path][0])}:
        target = os.path.normpath(os.path.join(os.path.dirname(path), after[path][3]))
        if not any(item[:2] == ("write", target) for item in out):
            # A declared link may lead there as well, so this one can be missed.
            out.append(("write", target, False))
    effects = [
        {"operation": operation, "path": os.path.join(str(root), os.fsdecode(path))}
        for operation, path, _needed in out
    ]
    needed = []
    for index, (operation, path, is_needed) in enumerate(out):
        others = [p for other, p, _ in out if other == operation == "write" and p != path]
        full = os.path.join(os.path.realpath(os.fsencode(root)), path)
        leads = [name for other in others for name in where_it_leads(root, other)]
        if is_dir(after.get(path)) and any(name.startswith(full + b"/") for name in leads):
            continue
        if is_needed and full not in leads:
            needed.append(index)
    return effects, needed


def where_it_leads(root: Path, path: bytes) -> set[bytes]:
    """Return what else a path names by links of the tree, which the call has not changed yet."""
    written = os.path.join(os.path.realpath(os.fsencode(root)), path)
    above, name = os.path.split(written)
    on_the_way = os.path.join(os.path.realpath(above), name)
    return {on_the_way, os.path.realpath(on_the_way)} - {written}


@pytest.mark.slow
@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(tree=TREES, script=SCRIPTS)
@example(tree=[("symlink", "b", "a")], script=[("symlink", "a", "b")])
def test_a_committed_view_is_what_the_script_makes_itself(
    memory_folder: Path, tree: list[Any], script: list[Any]
) -> None:
    """``observed`` and ``enforced``, for any tree and any script."""
    require("userns", not has_views(), has_views())
    base = Path(tempfile.mkdtemp(dir=memory_folder))
    lab = Lab(base)
    try:
        on_tree(lab.root, source_of(tree))
        direct = base / "direct"
        shutil.copytree(lab.root, direct, symlinks=True)
        before = picture(lab.root)
        on_tree(direct, source_of(script))
        after = picture(direct)
        found = lab.run(source_of(script))

        effects, needed = exact_effects(lab.root, before, after, found)
        assert uncovered([found], {"files": effects}, "/") == ()
        assert not_done([found], {"files": effects}, "/") == ()
        for index in needed:
            rest = effects[:index] + effects[index + 1 :]
            assert uncovered([found], {"files": rest}, "/"), effects[index]

        lab.commit(found)
        assert picture(lab.root) == after
        assert lab.leftovers() == []
    finally:
        lab.close()
        shutil.rmtree(base)
