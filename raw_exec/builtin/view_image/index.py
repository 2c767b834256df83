"""The ``view_image`` tool: a PNG or JPEG file as an image block.

The structure is checked here, so that a bad file is an error which says what is wrong with
it; the host checks again, since it trusts no worker. Pixels are not decoded.
"""

from __future__ import annotations

import base64
import binascii
import errno
import os
import stat
from typing import Any

__all__ = ["handler"]

MAX_IMAGE_BYTES = 16 * 1024 * 1024

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8"
_JPEG_END = b"\xff\xd9"
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_SCAN = 0xDA

_ERRORS = {
    errno.ENOENT: ("not_found", "does not exist"),
    errno.ENOTDIR: ("not_found", "is below something that is not a folder"),
    errno.EACCES: ("permission_denied", "is not permitted by the sandbox or by file permissions"),
    errno.EPERM: ("permission_denied", "is not permitted by the sandbox or by file permissions"),
    errno.ENXIO: ("not_a_regular_file", "is not a regular file"),
}


class _Unusable(Exception):
    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def handler(args: Any, context: Any) -> dict[str, Any]:
    """Return the image, or an error without any of its data."""
    path = args["path"]
    try:
        data = _read(os.path.normpath(os.path.join(context.cwd, path)))
        mime = _check(data)
    except _Unusable as exc:
        code, message = exc.code, exc.message
    except OSError as exc:
        number = exc.errno or 0
        code, text = _ERRORS.get(number, ("io_error", os.strerror(number)))
        message = f"{text} ({errno.errorcode.get(number, number)})"
    except ValueError:
        code, message = "invalid_arguments", "a path can't hold a NUL character"
    else:
        image = base64.b64encode(data).decode("ascii")
        return {"content": [{"type": "image", "mimeType": mime, "data": image}]}
    value = {"path": path, "error": {"code": code, "message": message}}
    return {"content": [{"type": "json", "value": value}], "isError": True, "code": code}


def _read(path: str) -> bytes:
    fd = os.open(path, _FLAGS)
    try:
        status = os.fstat(fd)
        if stat.S_ISDIR(status.st_mode):
            raise _Unusable("is_directory", "is a folder")
        if not stat.S_ISREG(status.st_mode):
            raise _Unusable("not_a_regular_file", "is not a regular file")
        if status.st_size > MAX_IMAGE_BYTES:
            text = f"has {status.st_size} bytes; the limit is {MAX_IMAGE_BYTES}"
            raise _Unusable("image_too_large", text)
        parts: list[bytes] = []
        left = status.st_size
        while left > 0 and (part := os.read(fd, left)):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)
    finally:
        os.close(fd)


def _check(data: bytes) -> str:
    """Return the type of an image whose structure is whole."""
    if data.startswith(_PNG):
        mime, problem = "image/png", _png_problem(data)
    elif data.startswith(_JPEG):
        mime, problem = "image/jpeg", _jpeg_problem(data)
    else:
        raise _Unusable("unsupported_image", "is neither a PNG nor a JPEG file")
    if problem is not None:
        raise _Unusable("invalid_image", f"is a damaged {mime}: {problem}")
    return mime


def _png_problem(data: bytes) -> str | None:
    at = len(_PNG)
    kinds: list[bytes] = []
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        end = at + 12 + length
        if at + 12 > len(data) or end > len(data):
            return f"the chunk at byte {at} is cut off"
        kind = data[at + 4 : at + 8]
        checksum = binascii.crc32(memoryview(data)[at + 4 : end - 4])
        if checksum != int.from_bytes(data[end - 4 : end], "big"):
            return f"the chunk at byte {at} has a wrong checksum"
        if not kinds and (kind != b"IHDR" or length != 13):
            return "it does not begin with a header"
        if kind == b"IHDR" and b"\0\0\0\0" in (data[at + 8 : at + 12], data[at + 12 : at + 16]):
            return "its width or height is 0"
        kinds.append(kind)
        at = end
        if kind == b"IEND":
            break
    if not kinds or kinds[-1] != b"IEND":
        return "it has no end"
    if b"IDAT" not in kinds:
        return "it has no pixels"
    return None if at == len(data) else f"{len(data) - at} bytes follow its end"


def _jpeg_problem(data: bytes) -> str | None:
    if not data.endswith(_JPEG_END):
        return "it has no end"
    at = len(_JPEG)
    framed = False
    while at + 4 <= len(data):
        if data[at] != 0xFF:
            return f"there is no marker at byte {at}"
        marker = data[at + 1]
        if marker == 0xFF:  # padding before a marker
            at += 1
            continue
        end = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        if end < at + 4 or end > len(data):
            return f"the segment at byte {at} is cut off"
        framed = framed or marker in _FRAMES
        if marker == _SCAN:
            return None if framed else "it has no frame before its pixels"
        at = end
    return "it has no pixels"
