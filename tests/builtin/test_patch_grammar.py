"""The patch dialect: what it says, and the name of what it refuses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raw_exec.builtin.write_file.changes.patch import (
    MAX_HUNKS,
    MAX_PATCH_BYTES,
    FileChange,
    Hunk,
    PatchError,
    parse_patch,
)

WHOLE = """*** Begin Patch
*** Add File: new.txt
+one
++two
*** No newline at end of file
*** Update File: src/./a.py
*** Move to: ../b.py
@@
 keep
-old
+new
@@
+tail
*** End of File
*** Delete File: /abs/gone
*** Update File: c
@@
-x
*** End Patch
"""


def test_every_form_is_read_into_its_section() -> None:
    """Contract: the whole dialect in one patch, paths absolute and normalised."""
    assert parse_patch(WHOLE, "/w/d") == (
        FileChange("add", 2, "new.txt", "/w/d/new.txt", added="+one\n++two\n", drop_newline=True),
        FileChange(
            "move",
            6,
            "src/./a.py",
            "/w/d/src/a.py",
            "../b.py",
            "/w/b.py",
            hunks=(Hunk(8, " keep\n-old\n+new\n", False), Hunk(12, "+tail\n", True)),
        ),
        FileChange("delete", 15, "/abs/gone", "/abs/gone"),
        FileChange("update", 16, "c", "/w/d/c", hunks=(Hunk(17, "-x\n", False),)),
    )


def test_line_breaks_around_a_patch_do_not_change_it() -> None:
    """Ours: CRLF throughout, and a missing last line break, mean the same patch."""
    expected = parse_patch(WHOLE, "/w")
    crlf = WHOLE.replace("\n", "\r\n")
    for text in (WHOLE[:-1], crlf, crlf[:-2]):
        assert parse_patch(text, "/w") == expected


def test_a_carriage_return_in_some_lines_only_is_content() -> None:
    """Ours: mixed line breaks are not guessed at."""
    text = "*** Begin Patch\n*** Add File: a\n+x\r\n+y\n*** End Patch\n"
    assert parse_patch(text, "/w")[0].added == "+x\r\n+y\n"


U = "*** Update File: a\n"


@pytest.mark.parametrize(
    ("body", "line", "text"),
    [
        (U + "@@ -1,2 +1,2 @@\n-a\n", 3, "numeric Git hunk header"),
        (U + "@@ def main():\n-a\n", 3, "bare '@@'"),
        (U + "@@\n-a\n@@ -3 +3 @@\n-b\n", 5, "numeric Git hunk header"),
        (U + "@@\n context\n", 3, "no '+' and no '-'"),
        (U + "@@\n", 4, "starts with a blank"),
        (U, 3, "bare '@@'"),
        (U + "@@\n-a\n\n+b\n", 5, "is empty"),
        (U + "@@\n-a\nplain\n", 5, "got 'plain'"),
        (U + "@@\n-a\n*** End of File\n@@\n-b\n", 6, "can't follow"),
        (U + "*** Move to: b\n*** Move to: c\n", 4, "Move to: c"),
        (U + "@@\n-a\n*** No newline at end of file\n+b\n", 6, "got '+b'"),
        ("*** Add File: a\n@@\n+b\n", 3, "starts with '+'"),
        ("*** Add File: a\n*** No newline at end of file\n", 3, "No newline"),
        ("*** Delete File: a\n-b\n", 3, "nothing below it"),
        ("*** Rename File: a\n", 2, "section header"),
        ("diff --git a/x b/x\n", 2, "section header"),
        ("*** Add File: \n", 2, "empty"),
        ("*** Add File:  a\n", 2, "blank"),
        ("*** Add File: a/\n", 2, "names a folder"),
        ("*** Add File: a/..\n", 2, "names a folder"),
        ("*** Add File: a\0b\n", 2, "NUL"),
        ("", 3, "no section"),
        ("".join(f"*** Delete File: {n}\n" for n in range(65)), 66, "more than 64 paths"),
        ("".join(f"*** Update File: {n}\n*** Move to: m{n}\n" for n in range(33)), 66, "64 paths"),
    ],
)
def test_what_is_outside_of_the_dialect_is_refused_with_its_line(
    body: str, line: int, text: str
) -> None:
    """Contract: strict, no fuzz; numeric Git headers are refused by name."""
    with pytest.raises(PatchError) as caught:
        parse_patch(f"*** Begin Patch\n{body}*** End Patch\n", "/w")
    assert text in str(caught.value)
    assert caught.value.line == line


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n" + WHOLE,
        " " + WHOLE,
        WHOLE + "more\n",
        WHOLE + "\n",
        WHOLE.replace("*** End Patch\n", ""),
        WHOLE + WHOLE,
        "*** Begin Patch\n*** End Patch\n",
    ],
)
def test_nothing_may_be_around_a_patch(text: str) -> None:
    """Contract: from Begin Patch to End Patch, once."""
    with pytest.raises(PatchError):
        parse_patch(text, "/w")


def test_limits_hold_at_their_edges() -> None:
    """Contract: 1 MiB of patch, 64 paths; ours: 4096 hunks."""
    frame = "*** Begin Patch\n*** Add File: a\n+{}\n*** End Patch\n"
    fill = MAX_PATCH_BYTES - len(frame) + 2
    assert parse_patch(frame.format("x" * fill), "/w")
    with pytest.raises(PatchError, match="1048577 bytes"):
        parse_patch(frame.format("x" * (fill + 1)), "/w")
    with pytest.raises(PatchError, match="limit"):
        parse_patch(frame.format("é" * (fill - 5)), "/w")
    hunks = "@@\n-a\n" * MAX_HUNKS
    with pytest.raises(PatchError, match="more than 4096 hunks"):
        parse_patch(f"*** Begin Patch\n{U}{hunks}@@\n-a\n*** End Patch", "/w")
    assert parse_patch(f"*** Begin Patch\n{U}{hunks}*** End Patch", "/w")
    sections = "".join(f"*** Delete File: {n}\n" for n in range(64))
    assert len(parse_patch(f"*** Begin Patch\n{sections}*** End Patch", "/w")) == 64


PIECES = [
    "*** Begin Patch", "*** End Patch", "*** Add File: a", "*** Update File: b", "*** Move to: c",
    "*** Delete File: d", "*** End of File", "*** No newline at end of file", "@@", "@@ -1 +1 @@",
    "+x", "-y", " z", "", "\r", "é",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=12), st.sampled_from(["\n", "\r\n"]))
def test_any_text_is_a_patch_or_one_named_error(lines: list[str], newline: str) -> None:
    """Fuzz rule: accepted, or PatchError, and nothing else."""
    try:
        changes = parse_patch(newline.join(lines), "/w")
    except PatchError:
        return
    assert changes
