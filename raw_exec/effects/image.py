"""A guest's memory as bytes: what every call starts from.

After each call the whole memory is put back, so a descriptor is a function of its
arguments (and of the time): nothing it changed, allocated, queued or left on its stack
is there for the next call. It is also how a new instance is made after a trap: instead
of starting an engine and loading the plugin again, the bytes are copied in.

Invariant: an image is taken, and restored, only while no guest function is active, so
the wasm globals (one stack pointer, set by the driver on every call) are part of no image.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from .guest import Guest, Instance

__all__ = ["Image", "Pointers", "instantiate", "restore", "take_image"]

_GRANULE = 64 * 1024  # a wasm page, and a multiple of every page size Linux uses
_MADV_DONTNEED: Final[int | None] = getattr(mmap, "MADV_DONTNEED", None)


@dataclass(frozen=True, slots=True)
class Pointers:
    """Where things are in the guest's memory; JavaScript values are 64-bit words."""

    runtime: int
    context: int
    stack_low: int
    stack_top: int
    frame: int
    buffer: int
    buffer_bytes: int
    adopt: int
    explain_load: int


@dataclass(frozen=True, slots=True)
class Image:
    """A guest's memory: pieces with content, and spans that are all zeros.

    Args:
        size: Length of the memory, bytes.
        pieces: ``(offset, content)``.
        zeros: ``(offset, length)`` in multiples of 64 KiB.
    """

    size: int
    pieces: tuple[tuple[int, bytes], ...]
    zeros: tuple[tuple[int, int], ...]
    pointers: Pointers


def take_image(instance: Instance, pointers: Pointers) -> Image:
    """Copy the instance's memory, after clearing its dead stack."""
    instance.refresh()
    stack = pointers.stack_top - pointers.stack_low
    ctypes.memset(instance.address + pointers.stack_low, 0, stack)
    blank = bytes(_GRANULE)
    pieces: list[tuple[int, bytes]] = []
    zeros: list[tuple[int, int]] = []
    start: int | None = None
    for at in range(0, instance.size, _GRANULE):
        # The first 256 KiB map the module's own data, which a discard would bring back.
        is_zero = at >= 4 * _GRANULE and instance.read(at, _GRANULE) == blank
        if is_zero:
            if zeros and sum(zeros[-1]) == at:
                zeros[-1] = (zeros[-1][0], zeros[-1][1] + _GRANULE)
            else:
                zeros.append((at, _GRANULE))
        if is_zero and start is not None:
            pieces.append((start, instance.read(start, at - start)))
            start = None
        elif not is_zero and start is None:
            start = at
    if start is not None:
        pieces.append((start, instance.read(start, instance.size - start)))
    return Image(instance.size, tuple(pieces), tuple(zeros), pointers)


def instantiate(guest: Guest, image: Image, memory_bytes: int) -> Instance:
    """Return a fresh instance whose memory is ``image``.

    Raises:
        MemoryError: If ``memory_bytes`` is less than the image needs.
    """
    if memory_bytes < image.size:
        raise MemoryError(f"the image has {image.size} bytes")
    instance = guest.new_instance(memory_bytes)
    instance.memory.grow(instance.store, (image.size - instance.size) // _GRANULE)
    instance.refresh()
    # Fresh memory is zero outside the module's data, which lies in a copied piece.
    for at, content in image.pieces:
        ctypes.memmove(instance.address + at, content, len(content))
    return instance


def restore(instance: Instance, image: Image) -> bool:
    """Put the memory back. False if it had grown at the last ``refresh``: then a new
    instance is needed, because WebAssembly memory never shrinks."""
    if instance.size != image.size:
        return False
    address = instance.address
    for at, content in image.pieces:
        ctypes.memmove(address + at, content, len(content))
    for at, length in image.zeros:
        _zero(address + at, length)
    return True


def _find_zero() -> Callable[[int, int], object]:
    """Return the cheapest way to zero whole pages of private memory."""

    def with_memset(address: int, length: int) -> object:
        return ctypes.memset(address, 0, length)

    if _MADV_DONTNEED is None or not sys.platform.startswith("linux"):
        return with_memset
    # Dropping pages of a private anonymous mapping reads as zeros afterwards, and costs
    # by the pages touched, not by the length.
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    advice = _MADV_DONTNEED

    def with_madvise(address: int, length: int) -> object:
        return madvise(address, length, advice) and with_memset(address, length)

    return with_madvise


_zero = _find_zero()
