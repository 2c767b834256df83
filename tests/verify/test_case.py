"""Case files: strict JSON, problems by line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from raw_exec.errors import ManifestError
from raw_exec.verify import parse_case
from raw_exec.verify.case import Case, Expectation, ExpectedFile, StartFile
from raw_exec.verify.matching import BlockMatch, TextMatch


def parse(value: Any) -> Case:
    """Parse a case given as data."""
    return parse_case(json.dumps(value), name="c", where="c.json")


def problems(value: Any) -> list[tuple[str, str]]:
    """Return pointer and message of every problem of a case."""
    with pytest.raises(ManifestError) as caught:
        parse(value)
    assert caught.value.code == "case_invalid"
    return [(item.pointer, item.message) for item in caught.value.problems]


def test_a_case_of_a_new_tool_is_read_as_written() -> None:
    """Contract: what ``raw tools new`` writes is valid."""
    case = parse(
        {
            "args": {"path": "notes.txt"},
            "files": {"notes.txt": "a\n"},
            "expect": {"isError": False, "content": [{"type": "text", "text": "ok"}]},
        }
    )
    assert case.files == {"notes.txt": StartFile("file", b"a\n")}
    assert case.expect == Expectation(
        content=(BlockMatch("text", text=TextMatch("exact", "ok")),),
    )


def test_every_form_of_a_file_is_understood() -> None:
    """Our choice; ``null`` is a folder before the call, and nothing after it."""
    case = parse(
        {
            "args": {},
            "files": {
                "b": {"base64": "AAE="},
                "d": None,
                "l": {"symlink": "../x"},
                "x": {"text": "#!", "mode": "755"},
            },
            "expect": {
                "files": {
                    "b": None,
                    "d": {"directory": True},
                    "l": {"symlink": "../x"},
                    "m": {"mode": "600"},
                    "p": {"contains": "x"},
                    "x": {"base64": "AAE="},
                }
            },
        }
    )
    assert case.files == {
        "b": StartFile("file", b"\x00\x01"),
        "d": StartFile("directory"),
        "l": StartFile("symlink", target="../x"),
        "x": StartFile("file", b"#!", mode=0o755),
    }
    assert case.expect.files == {
        "b": ExpectedFile("absent"),
        "d": ExpectedFile("directory"),
        "l": ExpectedFile("symlink", target="../x"),
        "m": ExpectedFile("file", mode=0o600),
        "p": ExpectedFile("file", text=TextMatch("contains", "x")),
        "x": ExpectedFile("file", b"\x00\x01"),
    }


@pytest.mark.parametrize(
    ("expect", "wanted"),
    [
        ({}, (False, None, False)),
        ({"code": "timeout"}, (True, "timeout", True)),
        ({"code": None}, (False, None, True)),
        ({"is_error": True}, (True, None, False)),
        ({"isError": False, "code": "partial"}, (False, "partial", True)),
    ],
)
def test_naming_a_code_expects_an_error_unless_said_otherwise(
    expect: dict[str, Any], wanted: tuple[bool, str | None, bool]
) -> None:
    """Our choice; both spellings of isError are known."""
    found = parse({"args": {}, "expect": expect}).expect
    assert (found.is_error, found.code, found.says_code) == wanted


def files(value: Any) -> dict[str, Any]:
    """Return a case that starts from these files."""
    return {"args": {}, "files": value, "expect": {}}


def content(*blocks: Any) -> dict[str, Any]:
    """Return a case that expects these blocks."""
    return {"args": {}, "expect": {"content": list(blocks)}}


BAD: dict[str, tuple[Any, list[str]]] = {
    "no args": ({"expect": {}}, [""]),
    "no expectation": ({"args": {}}, [""]),
    "unknown field": ({"args": {}, "expect": {}, "file": {}}, ["/file"]),
    "absolute path": (files({"/etc/x": ""}), ["/files/~1etc~1x"]),
    "path upwards": (
        files({"a/../../b": ""}),
        ["/files/a~1..~1..~1b"],
    ),
    "path with a hole": (files({"a//b": ""}), ["/files/a~1~1b"]),
    "NUL in a path": (files({"a\0": ""}), ["/files/a\0"]),
    "file below a file": (
        files({"a/b": "", "a": ""}),
        ["/files/a~1b"],
    ),
    "file below a link": (
        files({"l": {"symlink": "/tmp"}, "l/x/y": ""}),
        ["/files/l~1x~1y"],
    ),
    "two forms": (
        files({"a": {"text": "", "base64": ""}}),
        ["/files/a"],
    ),
    "not base64": (
        files({"a": {"base64": "?"}}),
        ["/files/a/base64"],
    ),
    "not a mode": (
        files({"a": {"text": "", "mode": "9"}}),
        ["/files/a/mode"],
    ),
    "not RE2": (
        content({"type": "text", "text": {"regex": "(?=x)"}}),
        ["/expect/content/0/text/regex"],
    ),
    "both spellings": (
        {"args": {}, "expect": {"isError": True, "is_error": True}},
        ["/expect/is_error"],
    ),
    "unknown block": (
        content({"type": "html"}),
        ["/expect/content/0/type"],
    ),
    "value and contains": (
        content({"type": "json", "value": 1, "contains": 1}),
        ["/expect/content/0"],
    ),
    "unknown answer": ({"args": {}, "approve": "maybe", "expect": {}}, ["/approve"]),
    "no time": ({"args": {}, "timeout_ms": 0, "expect": {}}, ["/timeout_ms"]),
    "several at once": (
        {"args": {}, "files": {"/a": ""}, "timeout_ms": "1", "expect": {"code": ""}},
        ["/files/~1a", "/timeout_ms", "/expect/code"],
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_mistake_is_refused_with_the_pointer_of_every_problem(name: str) -> None:
    """Strict: a misspelt expectation must not silently expect nothing."""
    value, pointers = BAD[name]
    assert [pointer for pointer, _ in problems(value)] == pointers


def test_a_problem_has_line_and_column() -> None:
    """An editor can go there."""
    text = '{\n  "args": {},\n  "expect": {"cod": "x"}\n}\n'
    with pytest.raises(ManifestError) as caught:
        parse_case(text, name="c", where="c.json")
    (problem,) = caught.value.problems
    assert (problem.line, problem.column, problem.pointer) == (3, 14, "/expect/cod")
    assert "did you mean 'code'?" in problem.message


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b'{"args":1,"args":2}', b"[]", b"[" * 99])
def test_a_text_that_is_no_case_is_the_one_documented_error(data: bytes) -> None:
    """Fuzz rule: accepted or ``case_invalid``."""
    with pytest.raises(ManifestError) as caught:
        parse_case(data, name="c", where="c.json")
    assert caught.value.code == "case_invalid"
