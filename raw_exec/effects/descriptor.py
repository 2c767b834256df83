"""The descriptor functions of one plugin, ready to be called."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

from ..limits import MAX_ARGUMENT_BYTES
from ..values import JsonValue
from .failures import DescriptorFailed, FailureCode
from .image import Image, restore

if TYPE_CHECKING:
    from .engine import WasmEngine
    from .guest import Instance

__all__ = ["MAX_RESULT_BYTES", "DescriptorModule"]

MAX_RESULT_BYTES = 1024 * 1024
"""Text of ``validateArgs``, or effects as JSON."""

_LENGTH_AT, _JSON_AT, _RESULT_AT, _RESULT_LENGTH_AT = 8, 4, 24, 32

_MESSAGES: dict[str, str] = {
    "memory": "it needs more memory than a descriptor may have",
    "not_synchronous": "it returned a promise; descriptors must be synchronous",
}


class DescriptorModule:
    """``validateArgs`` and ``describeEffects`` of one plugin. Made by ``WasmEngine.load``.

    Calls block, and run one at a time; the engine's work happens without the GIL. Every
    call starts from the same memory (see ``image.py``), so calls of different principals
    could not see one another even through one module.
    """

    def __init__(
        self,
        engine: WasmEngine,
        instance: Instance,
        image: Image,
        exports: dict[str, bool],
        deadline_ms: int,
        memory_bytes: int,
    ) -> None:
        self.exports = frozenset(name for name, is_function in exports.items() if is_function)
        self.not_functions = frozenset(exports) - self.exports
        self._engine = engine
        self._image = image
        self._deadline_ms = deadline_ms
        self._memory_bytes = memory_bytes
        self._lock = threading.Lock()
        self._instance: Instance | None = instance
        self._closed = False
        self._encoded: tuple[object, str] = (None, "null")

    def validate_args(self, arguments: object, *, deadline_ms: int | None = None) -> str | None:
        """Call ``validateArgs(arguments)``.

        Args:
            arguments: JSON data.
            deadline_ms: Instead of the module's own; granularity is ``TICK_S``.

        Returns:
            Its text when it finds something wrong, else ``None``. An empty text is a text.

        Raises:
            DescriptorFailed: It gave no answer.
        """
        kind, text = self._call("validateArgs", arguments, "", deadline_ms)
        return None if kind == "none" else text

    def describe_effects(
        self, arguments: object, *, cwd: str, deadline_ms: int | None = None
    ) -> JsonValue:
        """Call ``describeEffects(arguments, {cwd})`` and return its JSON value.

        The value is what the plugin says: check it with ``check_effects``.

        Args:
            arguments: JSON data.
            cwd: The session's folder, absolute.
            deadline_ms: Instead of the module's own; granularity is ``TICK_S``.

        Raises:
            DescriptorFailed: It gave no answer.
        """
        _, text = self._call("describeEffects", arguments, cwd, deadline_ms)
        try:
            value: JsonValue = json.loads(text)
        except (ValueError, RecursionError):
            raise DescriptorFailed(
                "bad_result", "describeEffects: the result is not JSON"
            ) from None
        return value

    def fork(self) -> DescriptorModule:
        """Return another module with the same plugin, for a caller that must not wait."""
        exports = dict.fromkeys(self.exports, True) | dict.fromkeys(self.not_functions, False)
        instance = self._engine.new_instance(self._image, self._memory_bytes)
        return DescriptorModule(
            self._engine, instance, self._image, exports, self._deadline_ms, self._memory_bytes
        )

    def close(self) -> None:
        """Free the memory. Idempotent; waits for a running call."""
        with self._lock:
            self._closed = True
            self._discard()

    def _call(
        self, name: str, arguments: object, cwd: str, deadline_ms: int | None
    ) -> tuple[str, str]:
        if name not in self.exports:
            raise DescriptorFailed("bad_result", f"the module exports no function {name!r}")
        with self._lock:
            request = self._encode(name, arguments, cwd)
            if name == "describeEffects":
                self._encoded = (None, "null")  # the last use of these arguments
            answer = self._cross(name, request, deadline_ms or self._deadline_ms)
        kind, _, text = answer.partition(":")
        if kind in ("none", "text", "json"):
            return kind, text
        code: FailureCode = kind  # type: ignore[assignment]  # the harness's other answers
        raise DescriptorFailed(code, f"{name}: {_MESSAGES.get(kind, text)}")

    def _encode(self, name: str, arguments: object, cwd: str) -> bytes:
        # ASCII with escapes: the engine parses it faster than UTF-8 (11 against 20 ms for a
        # mebibyte of two-byte characters). Arguments are frozen, so validateArgs and
        # describeEffects of one call can share their text; the reference kept here is what
        # makes the identity test sound.
        if self._encoded[0] is not arguments or not _is_frozen(arguments):
            self._encoded = (arguments, json.dumps(arguments, separators=(",", ":")))
        request = f'["{name}",{self._encoded[1]},{json.dumps(cwd)}]'.encode("ascii")
        if len(request) > MAX_ARGUMENT_BYTES:
            raise DescriptorFailed(
                "too_large",
                f"{name}: the arguments are {len(request)} bytes of JSON;"
                f" at most {MAX_ARGUMENT_BYTES} are allowed",
            )
        return request

    def _cross(self, name: str, request: bytes, deadline_ms: int) -> str:
        if self._closed:
            raise DescriptorFailed("trap", f"{name}: the module is closed")
        instance = self._instance
        if instance is None:
            instance = self._engine.new_instance(self._image, self._memory_bytes)
            self._instance = instance
        clean = False
        try:
            with self._engine.deadline(instance, deadline_ms):
                self._place(instance, request, name)
                status = instance.run(self._image.pointers.frame, self._engine.now_ns())
            answer = self._take(instance, status, name)
            clean = restore(instance, self._image)
            return answer
        except BaseException as error:
            raise self._engine.translate(error, deadline_ms, name) from error
        finally:
            # Security: an instance that trapped, or grew, is not used again.
            if not clean:
                self._discard()

    def _place(self, instance: Instance, request: bytes, name: str) -> None:
        pointers = self._image.pointers
        at = pointers.buffer
        if len(request) >= pointers.buffer_bytes:
            at = instance.call("malloc", len(request) + 1) & 0xFFFFFFFF
            if not at:
                raise DescriptorFailed("memory", f"{name}: {_MESSAGES['memory']}")
            instance.refresh()
            instance.write(pointers.frame + _JSON_AT, at.to_bytes(4, "little"))
        instance.write(at, request + b"\0")
        instance.write(pointers.frame + _LENGTH_AT, len(request).to_bytes(4, "little"))

    def _take(self, instance: Instance, status: int, name: str) -> str:
        if status != 0:
            # Not even the harness could say what happened.
            raise DescriptorFailed("memory", f"{name}: {_MESSAGES['memory']}")
        instance.refresh()
        frame = self._image.pointers.frame
        length = int.from_bytes(instance.read(frame + _RESULT_LENGTH_AT, 4), "little")
        if length > MAX_RESULT_BYTES + len("json:"):
            raise DescriptorFailed(
                "too_large",
                f"{name}: the result is {length} bytes; at most {MAX_RESULT_BYTES} are allowed",
            )
        where = int.from_bytes(instance.read(frame + _RESULT_AT, 4), "little")
        return instance.read(where, length).decode("utf-8", "replace")

    def _discard(self) -> None:
        instance, self._instance = self._instance, None
        if instance is not None:
            instance.close()


def _is_frozen(value: Any) -> bool:
    from ..values import FrozenDict, FrozenList

    return type(value) in (FrozenDict, FrozenList)
