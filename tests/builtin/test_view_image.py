"""view_image: what it shows, and errors without image data."""

from __future__ import annotations

import base64
import binascii
import importlib.util
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

import raw_exec.builtin
from raw_exec.dispatch.results import InvalidResult, check_result

from .calls import Context, value_of


def _handler() -> Any:
    path = Path(raw_exec.builtin.__file__).parent / "view_image" / "index.py"
    spec = importlib.util.spec_from_file_location("view_image_index", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


INDEX = _handler()


def chunk(kind: bytes, body: bytes) -> bytes:
    return (
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", binascii.crc32(kind + body))
    )


HEAD = b"\x89PNG\r\n\x1a\n"
IHDR = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
IDAT = chunk(b"IDAT", zlib.compress(b"\0\0"))
IEND = chunk(b"IEND", b"")
PNG = HEAD + IHDR + IDAT + IEND
FRAME = b"\xff\xc0\x00\x0b\x08\x00\x01\x00\x01\x01\x01\x11\x00"
SCAN = b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00"
JPEG = b"\xff\xd8\xff\xe0\x00\x04ab" + FRAME + b"\xff" + SCAN + b"\x12\x34\xff\xd9"


def view(root: Path, path: str) -> Any:
    return INDEX.handler({"path": path}, Context(str(root)))


@pytest.mark.parametrize(("data", "mime"), [(PNG, "image/png"), (JPEG, "image/jpeg")])
def test_an_image_is_returned_as_the_host_accepts_it(
    tmp_path: Path, data: bytes, mime: str
) -> None:
    """Contract: PNG or JPEG as an image block, whatever the file is called."""
    (tmp_path / "x.dat").write_bytes(data)
    result = view(tmp_path, "x.dat")
    encoded = base64.b64encode(data).decode()
    assert result == {"content": [{"type": "image", "mimeType": mime, "data": encoded}]}
    check_result(result)


BAD = {
    "text": b"hello",
    "empty": b"",
    "gif": b"GIF89a" + bytes(20),
    "signature only": HEAD,
    "no header": HEAD + IDAT + IEND,
    "no pixels": HEAD + IHDR + IEND,
    "no end": HEAD + IHDR + IDAT,
    "cut off": PNG[:-1],
    "trailing": PNG + b"x",
    "checksum": PNG[:20] + b"\xff" + PNG[21:],
    "no width": HEAD + chunk(b"IHDR", bytes(4) + IHDR[12:21]) + IDAT + IEND,
    "jpeg without end": JPEG[:-1],
    "jpeg without frame": JPEG.replace(FRAME, b""),
    "jpeg without scan": b"\xff\xd8" + FRAME + b"\xff\xd9",
    "jpeg segment": b"\xff\xd8\xff\xe0\xff\xffab\xff\xd9",
    "jpeg marker": b"\xff\xd8abcd\xff\xd9",
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_image_is_an_error_without_base64(tmp_path: Path, name: str) -> None:
    """Contract: structured error; what the host would refuse is refused here by name."""
    (tmp_path / "x.png").write_bytes(BAD[name])
    result = view(tmp_path, "x.png")
    assert result["isError"] is True
    assert result["code"] in ("invalid_image", "unsupported_image")
    assert value_of(result)["error"]["code"] == result["code"]
    for mime in ("image/png", "image/jpeg"):
        data = base64.b64encode(BAD[name]).decode()
        with pytest.raises(InvalidResult):
            check_result({"content": [{"type": "image", "mimeType": mime, "data": data}]})


def test_what_is_no_readable_image_file_is_an_error(tmp_path: Path) -> None:
    """Contract: missing, a folder, a pipe, too large."""
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    with (tmp_path / "big").open("wb") as file:
        file.truncate(INDEX.MAX_IMAGE_BYTES + 1)
    codes = {name: view(tmp_path, name)["code"] for name in ("no", "folder", "fifo", "big", "a\0")}
    assert codes == {
        "no": "not_found",
        "folder": "is_directory",
        "fifo": "not_a_regular_file",
        "big": "image_too_large",
        "a\0": "invalid_arguments",
    }
