"""Random trees against random calls: effects cover what changes, and all or nothing before it.

No processes: the handler runs here, on a folder per example.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from raw_exec.builtin.write_file.changes.request import describe_effects, find_problem
from raw_exec.values import freeze

from .calls import Signal, call_write, digest, value_of, walk

NAMES = ("a", "b", "d/a", "d/b", "d/e/a", "new/a")
LINE = st.sampled_from(["", "x", "y", "z z", "é", *"12345678"])
CONTENT = st.builds(
    lambda bom, lines, newline, ended: (
        b"\xef\xbb\xbf" * bom + (newline.join(lines) + newline * (ended and bool(lines))).encode()
    ),
    st.booleans(),
    st.lists(LINE, max_size=5),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
ENTRY = st.one_of(
    st.none(),
    CONTENT,
    CONTENT,
    CONTENT,
    st.sampled_from([b"\0", b"\xff\n", "link:b", "link:d", "link:nowhere", "folder"]),
)
TREE = st.fixed_dictionaries(dict.fromkeys(("a", "b", "d/a", "d/b", "d/e"), ENTRY))
PATH = st.sampled_from([*NAMES, "./a", "d/../b", "d"])


@contextmanager
def planted(tree: dict[str, Any]) -> Iterator[Path]:
    """Make a tree; ``d`` is a folder; entries that do not fit into it are left out."""
    root = Path(tempfile.mkdtemp())
    try:
        for name, entry in tree.items():
            path = root / name
            if entry is None:
                continue
            path.parent.mkdir(exist_ok=True)
            if entry == "folder":
                path.mkdir()
            elif isinstance(entry, str):
                path.symlink_to(root / entry.removeprefix("link:"))
            else:
                path.write_bytes(entry)
                path.chmod(0o640 if len(entry) % 2 else 0o755)
        yield root
    finally:
        shutil.rmtree(root)


def hunk_of(data: st.DataObject, content: bytes | None) -> str:
    """Draw a hunk that often fits the file: some of its lines, some changed."""
    text = (content or b"").decode("utf-8", "replace").removeprefix("\ufeff")
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []
    start = data.draw(st.integers(0, max(0, len(lines) - 1)))
    stop = data.draw(st.integers(start, len(lines)))
    body = "".join(data.draw(st.sampled_from(" -")) + line + "\n" for line in lines[start:stop])
    changes = "-" in {line[:1] for line in body.split("\n")}
    added = data.draw(st.lists(LINE, min_size=not changes, max_size=2))
    body += "".join(f"+{line}\n" for line in added)
    at_end = "*** End of File\n" if stop == len(lines) and data.draw(st.booleans()) else ""
    return f"@@\n{body}{at_end}"


def some_path(data: st.DataObject, tree: dict[str, Any], wanted: bool) -> str:
    """Draw a path, mostly one where a text is, or is not, as wanted."""
    if data.draw(st.integers(0, 7)) == 0:
        return data.draw(PATH)
    fitting = [
        n
        for n in NAMES
        if isinstance(tree.get(n), bytes) == wanted and (wanted or tree.get(n) is None)
    ]
    return data.draw(st.sampled_from(fitting or NAMES))


def section(data: st.DataObject, tree: dict[str, Any]) -> str:
    kind = data.draw(st.sampled_from(["Add", "Delete", "Update", "Update", "Update"]))
    path = some_path(data, tree, wanted=kind != "Add")
    if kind == "Delete":
        return f"*** Delete File: {path}\n"
    drop = "*** No newline at end of file\n" if data.draw(st.integers(0, 4)) == 0 else ""
    if kind == "Add":
        lines = data.draw(st.lists(LINE, min_size=bool(drop), max_size=3))
        return f"*** Add File: {path}\n" + "".join(f"+{line}\n" for line in lines) + drop
    move = ""
    if data.draw(st.integers(0, 2)) == 0:
        move = f"*** Move to: {some_path(data, tree, wanted=False)}\n"
    known = tree.get(path)
    hunks = hunk_of(data, known if isinstance(known, bytes) else None)
    hunks *= not move or data.draw(st.booleans())
    return f"*** Update File: {path}\n{move}{hunks}{drop}"


def operation(data: st.DataObject, tree: dict[str, Any]) -> dict[str, Any]:
    path = some_path(data, tree, wanted=True)
    mode = data.draw(st.sampled_from(["overwrite", "append", "replace_text", "replace_lines"]))
    text = "\n".join(data.draw(st.lists(LINE, max_size=3)))
    item: dict[str, Any] = {"path": path, "mode": mode}
    if mode == "replace_text":
        return {
            **item,
            "old_text": data.draw(st.sampled_from(["x", "y\n", "z z"])),
            "new_text": text,
        }
    if mode == "replace_lines":
        known = tree.get(path)
        content = known if isinstance(known, bytes) else b""
        start = data.draw(st.integers(1, 3))
        return {
            **item,
            "start_line": start,
            "end_line": start + data.draw(st.integers(0, 2)),
            "expected_sha256": digest(content),
            "content": text,
        }
    return {**item, "content": text}


def changed_files(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    """Return paths of everything but folders whose kind, mode or bytes differ."""
    return {
        name
        for name in before.keys() | after.keys()
        if before.get(name) != after.get(name)
        and "folder" not in (before.get(name, ("",))[0], after.get(name, ("",))[0])
    }


def check(args: dict[str, Any], root: Path, tree: dict[str, Any], aborts_at: int) -> None:
    if find_problem(args) is not None:
        event("refused before approval")
        return
    effects = describe_effects(freeze(args), cwd=str(root))
    before = walk(root)
    result = call_write(freeze(args), root, signal=Signal(aborts_at))
    after = walk(root)
    status = value_of(result)["status"]
    event(f"{next(iter(args))}: {status}")
    declared = {str(Path(item["path"]).relative_to(root)) for item in effects["files"]}
    # In operations a link is followed; what it leads to is not the lexical path.
    real = {os.path.relpath(os.path.realpath(root / name), root) for name in declared}
    changed = changed_files(before, after)
    assert changed <= (declared if "patch" in args else declared | real)
    if status == "conflict":
        assert after == before
    made = {n for n in after.keys() - before.keys() if after[n][0] == "folder"}
    assert all(any(f"{name}".startswith(f"{m}/") for name in declared | real) for m in made)
    assert not any(".raw-" in name for name in after)
    by_operation: dict[str, set[str]] = {}
    for item in effects["files"]:
        relative = str(Path(item["path"]).relative_to(root))
        by_operation.setdefault(item["operation"], set()).add(relative)
    gone = {name for name in changed if name not in after}
    assert gone <= by_operation.get("delete", set()) | by_operation.get("rename_source", set())
    if status == "applied" and "patch" in args:
        assert (
            changed
            >= gone
            == (by_operation.get("delete", set()) | by_operation.get("rename_source", set()))
        )


SETTINGS = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.data_too_large]
)


@SETTINGS
@given(TREE, st.data())
def test_a_patch_changes_what_its_effects_say_or_nothing(
    tree: dict[str, Any], data: st.DataObject
) -> None:
    """Contract: effects ⊇ changes; all preflight checks pass, or no byte differs."""
    sections = "".join(section(data, tree) for _ in range(data.draw(st.integers(1, 3))))
    aborts_at = data.draw(st.sampled_from([-1, -1, -1, 1, 4, 7]))
    with planted(tree) as root:
        check({"patch": f"*** Begin Patch\n{sections}*** End Patch\n"}, root, tree, aborts_at)


@SETTINGS
@given(TREE, st.data())
def test_operations_change_what_their_effects_say_or_nothing(
    tree: dict[str, Any], data: st.DataObject
) -> None:
    """Contract: effects ⊇ changes; all validated, or no byte differs."""
    operations = [operation(data, tree) for _ in range(data.draw(st.integers(1, 4)))]
    aborts_at = data.draw(st.sampled_from([-1, -1, -1, 1, 3, 5]))
    with planted(tree) as root:
        check({"operations": operations}, root, tree, aborts_at)
