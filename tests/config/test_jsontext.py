"""Strict JSON text: what is refused, where it says so, and what still passes."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raw_exec.errors import Problem
from raw_exec.jsontext import JsonTextError, locate, parse, read_regular_file
from raw_exec.values import NotJson, escape_pointer, freeze

LIMIT = 10 * 1024 * 1024


def refusal(data: bytes | str, **limits: int) -> JsonTextError:
    with pytest.raises(JsonTextError) as caught:
        parse(data, **{"max_bytes": LIMIT, **limits})
    return caught.value


def places(error: JsonTextError) -> list[tuple[str, int | None, int | None]]:
    return [(p.pointer, p.line, p.column) for p in error.problems]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b" {} ", {}),
        (b'{"a":[1,-0,2.5,1e5,true,null]}', {"a": [1, 0, 2.5, 100000.0, True, None]}),
        (b"9007199254740991", 2**53 - 1),
        (b"-9007199254740991", -(2**53) + 1),
        (b'"\\ud83d\\ude00"', "\N{GRINNING FACE}"),
        (b'"\\\\ud800"', "\\ud800"),
        (b'{"__proto__":{"x":1},"constructor":2}', {"__proto__": {"x": 1}, "constructor": 2}),
        ('{"é":1}', {"é": 1}),
    ],
)
def test_plain_json_is_accepted_as_it_is(text: bytes | str, value: Any) -> None:
    """RFC 8259; ``__proto__`` is a key like any other."""
    assert parse(text, max_bytes=LIMIT) == value


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"a":1,\n "a":2}', [("/a", 2, 2)]),
        (b'{"b":{"c":1,"c":2,"c":3}}', [("/b/c", 1, 13), ("/b/c", 1, 19)]),
        (b'{"\\u0061":1,"a":2}', [("/a", 1, 13)]),
        (b"[NaN,1e400,-Infinity]", [("/0", 1, 2), ("/1", 1, 6), ("/2", 1, 12)]),
        (b"9007199254740992", [("", 1, 1)]),
        (b"[-9007199254740992]", [("/0", 1, 2)]),
        (b"1" * 5000, [("", 1, 1)]),
        (b'{"a":"\\ud800"}', [("/a", 1, 6)]),
        (b'{"\\udfff":1}', [("/?", 1, 2)]),
        (b'{"a":"\xff"}', [("", 1, 7)]),
        (b"\xef\xbb\xbf{}", [("", 1, 1)]),
        ("{}".encode("utf-16"), [("", 1, 1)]),
        ("{}".encode("utf-16-le"), [("", 1, 2)]),
        (b'{"a":"\0"}', [("", 1, 7)]),
        (b"{} x", [("", 1, 4)]),
        (b"{}\n// c", [("", 2, 1)]),
        (b"{/* c */}", [("", 1, 2)]),
        (b"[1,]", [("", 1, 4)]),
        (b"{'a':1}", [("", 1, 2)]),
        (b'"a\nb"', [("", 1, 3)]),
        (b"01", [("", 1, 2)]),
        (b"", [("", 1, 1)]),
        (b'{"a', [("", 1, 2)]),
        ('{"é": nul}', [("", 1, 7)]),
    ],
)
def test_other_text_is_refused_with_its_place(
    data: bytes | str, expected: list[tuple[str, int, int]]
) -> None:
    """Attack corpus X11 to X13; columns count characters, not bytes."""
    error = refusal(data)
    assert error.code == "json_invalid"
    assert places(error) == expected


def test_invalid_utf8_names_the_byte() -> None:
    """Columns count characters, so the byte offset is said as well."""
    assert "at byte 9" in str(refusal('{"é":"'.encode() + b'ab\xff"}').problems[0])


def test_a_duplicate_key_names_its_first_place() -> None:
    """Ours: both places help to choose which one goes."""
    error = refusal(b'{\n "entry": 1,\n "entry": 2\n}')
    assert error.problems == (Problem("/entry", "duplicate key 'entry'; first at 2:2", 3, 2),)


@pytest.mark.parametrize("bracket", [b"[", b'{"a":'])
def test_deep_nesting_is_refused_before_the_parser_recurses(bracket: bytes) -> None:
    """Attack corpus X11: CPython's parser would overflow its stack."""
    error = refusal(bracket * 100_000)
    assert error.code == "json_too_deep"
    assert error.problems[0].line == 1


def test_nesting_up_to_the_limit_is_accepted() -> None:
    """The pair of the refusal: brackets inside strings do not count."""
    text = b"[" * 3 + b'"[[[[[{{{{\\"[[["' + b"]" * 3
    assert parse(text, max_bytes=LIMIT, max_depth=3) == [[['[[[[[{{{{"[[[']]]
    assert refusal(text, max_depth=2).code == "json_too_deep"


def test_nodes_are_counted_exactly() -> None:
    """Containers and scalars count, keys do not."""
    text = b'[[], [ ], [{ }], {"a,b": 1}]'
    assert parse(text, max_bytes=LIMIT, max_nodes=7)
    assert refusal(text, max_nodes=6).code == "json_too_many_values"


def test_a_too_large_text_is_refused_by_size() -> None:
    """Nothing of it is looked at."""
    assert refusal(b"[" * 11, max_bytes=10).code == "json_too_large"


def test_a_text_with_a_lone_surrogate_is_refused() -> None:
    """A ``str`` that no file could hold."""
    assert places(refusal('"\ud800"')) == [("", 1, 2)]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def is_json(value: Any) -> bool:
    try:
        freeze(value)
    except NotJson:
        return False
    return True


@given(json_values.filter(is_json), st.sampled_from([None, 1]))
def test_what_json_writes_is_read_back(value: Any, indent: int | None) -> None:
    """Accepting must not depend on layout or escapes."""
    assert parse(json.dumps(value, indent=indent), max_bytes=LIMIT) == value
    assert parse(json.dumps(value, ensure_ascii=False).encode(), max_bytes=LIMIT) == value


@given(st.binary(max_size=40) | st.text(alphabet='[]{}",:0123e.-\\u ntf/', max_size=40))
def test_any_input_is_accepted_or_refused_with_the_one_error(data: bytes | str) -> None:
    """Fuzz rule: no other exception; what is accepted is JSON that can be frozen."""
    try:
        value = parse(data, max_bytes=LIMIT)
    except JsonTextError:
        return
    freeze(value)


def pointers(value: Any, base: str = "") -> list[str]:
    out = [base]
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            out += pointers(item, f"{base}/{escape_pointer(str(key))}")
    return out


@given(json_values.filter(is_json))
def test_every_pointer_is_located_at_its_own_value(value: Any) -> None:
    """The place is where the value starts: parsing from there gives the value."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    lines = text.split("\n")
    for pointer in pointers(value):
        line, column = locate(text, pointer)
        rest = "\n".join([lines[line - 1][column - 1 :], *lines[line:]])
        found, _end = json.JSONDecoder().raw_decode(rest)
        wanted: Any = value
        for part in pointer.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            wanted = wanted[int(key) if isinstance(wanted, list) else key]
        assert found == wanted


def test_what_is_missing_is_located_at_its_container() -> None:
    """A missing field has no place of its own."""
    text = '{"a": {\n "b": [1]}}'
    assert locate(text, "/a/x") == (1, 7)
    assert locate(text, "/a/b/7") == (2, 7)
    assert locate(text, "/a/b", at="key") == (2, 2)


# ---------------------------------------------------------------- files


def read_refusal(path: Path) -> JsonTextError:
    with pytest.raises(JsonTextError) as caught:
        read_regular_file(path, 1000)
    return caught.value


def test_a_regular_file_is_read_whole(tmp_path: Path) -> None:
    """The pair of the refusals below; a symlink to it is followed unless asked not to."""
    path = tmp_path / "f"
    path.write_bytes(b"x" * 1000)
    (tmp_path / "l").symlink_to("f")
    assert read_regular_file(path, 1000) == b"x" * 1000
    assert read_regular_file(tmp_path / "l", 1000) == b"x" * 1000
    with pytest.raises(JsonTextError):
        read_regular_file(tmp_path / "l", 1000, follow_symlinks=False)


def test_a_fifo_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    """Attack corpus X10."""
    os.mkfifo(tmp_path / "f")
    error = read_refusal(tmp_path / "f")
    assert (error.code, "a FIFO" in error.message) == ("not_a_regular_file", True)


@pytest.mark.parametrize("path", ["/dev/zero", "/proc", "/"])
def test_devices_and_folders_are_refused(path: str) -> None:
    """Attack corpus X10."""
    assert read_refusal(Path(path)).code == "not_a_regular_file"


def test_a_socket_is_refused(tmp_path: Path) -> None:
    """Attack corpus X10."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(tmp_path / "s"))
        assert read_refusal(tmp_path / "s").code == "not_a_regular_file"


@pytest.mark.parametrize("size", [1001, 100 * 2**20, 2**30])
def test_a_huge_file_is_refused_by_its_size(tmp_path: Path, size: int) -> None:
    """Attack corpus X10: sparse, so reading it would be the mistake."""
    with (tmp_path / "f").open("wb") as file:
        file.truncate(size)
    assert read_refusal(tmp_path / "f").code == "file_too_large"


def test_a_file_that_hides_its_size_is_still_capped() -> None:
    """Files in /proc say that they are empty."""
    with pytest.raises(JsonTextError) as caught:
        read_regular_file("/proc/self/status", 10)
    assert caught.value.code == "file_too_large"
    assert read_regular_file("/proc/self/status", 100_000).startswith(b"Name:")
