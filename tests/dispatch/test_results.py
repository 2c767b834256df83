"""The result contract: what a handler may return, and how much of it is shown."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raw_exec.dispatch.results import InvalidResult, cap_content, check_result


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def _png(width: int = 1, height: int = 1) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    data = zlib.compress(b"\0" * (width + 1) * height)
    chunks = _chunk(b"IHDR", header) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


_JPEG = (
    b"\xff\xd8\xff\xe0\x00\x10JFIF\0\1\1\0\0\1\0\1\0\0"
    b"\xff\xc0\x00\x0b\x08\0\1\0\1\1\1\x11\0\xff\xda\x00\x08\1\1\0\0\x3f\0\x37\xff\xd9"
)


def _image(raw: bytes, mime: str = "image/png") -> dict[str, object]:
    block = {"type": "image", "mimeType": mime, "data": base64.b64encode(raw).decode()}
    return {"content": [block]}


def test_a_full_result_is_taken_apart() -> None:
    """Seed 2: content, isError and code; panel blocks are taken out."""
    panel = {"type": "panel", "panel": "p", "op": "close"}
    checked = check_result(
        {
            "content": [{"type": "text", "text": "a"}, panel, {"type": "json", "value": None}],
            "isError": True,
            "code": "no_luck",
        }
    )
    assert checked.content == ({"type": "text", "text": "a"}, {"type": "json", "value": None})
    assert checked.panels == (panel,)
    assert (checked.is_error, checked.code) == (True, "no_luck")


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        (None, ""),
        ([], ""),
        ("text", ""),
        (7, ""),
        ({}, ""),
        ({"content": "x"}, "/content"),
        ({"content": {}}, "/content"),
        ({"content": [], "extra": 1}, "/extra"),
        ({"content": [], "a/b": 1}, "/a~1b"),
        ({"content": [], "isError": "no"}, "/isError"),
        ({"content": [], "isError": None}, "/isError"),
        ({"content": [], "code": ""}, "/code"),
        ({"content": [], "code": 5}, "/code"),
        ({"content": [], "code": "x" * 129}, "/code"),
        ({"content": ["x"]}, "/content/0"),
        ({"content": [{}]}, "/content/0/type"),
        ({"content": [{"type": "text"}]}, "/content/0/text"),
        ({"content": [{"type": "text", "text": 1}]}, "/content/0/text"),
        ({"content": [{"type": "text", "text": "", "x": 1}]}, "/content/0/x"),
        ({"content": [{"type": "json"}]}, "/content/0"),
        ({"content": [{"type": "audio", "data": ""}]}, "/content/0/type"),
        ({"content": [{"type": "text", "text": ""}] * 1025}, "/content"),
    ],
)
def test_a_result_outside_the_contract_is_refused_by_pointer(value: object, pointer: str) -> None:
    """Whatever a handler returns, the first problem is named where it is."""
    with pytest.raises(InvalidResult) as caught:
        check_result(value)
    assert caught.value.pointer == pointer


@pytest.mark.parametrize(("raw", "mime"), [(_png(), "image/png"), (_JPEG, "image/jpeg")])
def test_a_whole_image_is_accepted(raw: bytes, mime: str) -> None:
    """The pair of the next test: real images pass."""
    assert len(check_result(_image(raw, mime)).content) == 1


@pytest.mark.parametrize(
    ("raw", "mime"),
    [
        (b"", "image/png"),
        (_png(), "image/jpeg"),
        (_JPEG, "image/png"),
        (_png(0, 1), "image/png"),
        (_png()[:-1], "image/png"),
        (_png() + b"x", "image/png"),
        (_png().replace(b"IDAT", b"IDAX"), "image/png"),
        (_JPEG[:-2], "image/jpeg"),
        (b"\xff\xd8\xff\xd9", "image/jpeg"),
        (b"GIF89a", "image/gif"),
    ],
)
def test_a_broken_image_is_refused(raw: bytes, mime: str) -> None:
    """Images are checked by structure, not believed."""
    with pytest.raises(InvalidResult):
        check_result(_image(raw, mime))


def test_image_data_that_is_not_base64_is_refused() -> None:
    """Base64 is read strictly."""
    block = {"type": "image", "mimeType": "image/png", "data": "!!!!"}
    with pytest.raises(InvalidResult):
        check_result({"content": [block]})


@given(st.lists(st.text(max_size=60), max_size=6), st.integers(min_value=1, max_value=200))
def test_a_cut_keeps_the_budget_and_whole_characters(texts: list[str], budget: int) -> None:
    """What is shown of the tool's own text fits the budget, and a cut is always marked."""
    texts = [t.encode("utf-8", "ignore").decode() for t in texts]
    content = tuple({"type": "text", "text": t} for t in texts)
    capped, missing = cap_content(content, budget)
    total = sum(len(t.encode()) for t in texts)
    assert missing == max(0, total - budget) or 0 <= missing - max(0, total - budget) < 4
    marked = any("… [" in block["text"] for block in capped if block["type"] == "text")
    assert marked or not missing
    for block in capped:
        block["text"].encode("utf-8")


def test_a_json_value_that_fits_stays_json() -> None:
    """The pair of the next test."""
    content = ({"type": "json", "value": {"a": [1, 2]}},)
    assert cap_content(content, 64) == (content, 0)


def test_an_oversize_json_value_becomes_a_labelled_preview() -> None:
    """spec/raw.md "Results": never broken JSON."""
    value = {"key": "é" * 100}
    (block,), missing = cap_content(({"type": "json", "value": value},), 51)
    size = len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())
    assert block["type"] == "text"
    assert block["text"].startswith("[preview of a JSON value: first 50 of ")
    assert missing == size - 50


def test_images_do_not_count_against_the_text_budget() -> None:
    """Images have a limit of their own."""
    image = _image(_png())["content"][0]  # type: ignore[index]
    content = (image, {"type": "text", "text": "ok"})
    assert cap_content(content, 2) == (content, 0)


@given(
    st.lists(st.text(max_size=40).map(lambda text: text * 200), max_size=4),
    st.dictionaries(st.text(max_size=5), st.integers() | st.booleans() | st.none(), max_size=4),
)
def test_the_counted_size_of_a_value_is_its_encoded_size(texts: list[str], rest: Any) -> None:
    """A budget is kept to the byte whichever way a value's size was found."""
    value = {"texts": texts, "rest": rest}
    encoded = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    block = {"type": "json", "value": value}
    assert cap_content((block,), len(encoded)) == ((block,), 0)
    (cut,), missing = cap_content((block,), len(encoded) - 1)
    assert cut["type"] == "text"
    assert missing > 0
