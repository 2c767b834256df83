"""Put an engine, then a plugin, into a guest: every step before the first call.

Each step is one C function of the guest, called from here: slow (30-100 µs), which does
not matter, and bounded by the load's deadline like everything that runs in the guest.
"""

from __future__ import annotations

import importlib.resources
from collections.abc import Sequence

from ..errors import InternalError
from .driver import COMPILE_MODULE, EXCEPTION_TAG, UNDEFINED
from .failures import DescriptorFailed, EngineUnsupported
from .graph import PLUGIN_ROOT, ModuleSource
from .guest import Instance
from .guestfile import LOADER_SLOT
from .image import Image, Pointers, take_image

__all__ = ["Loader", "set_stack"]

_SLACK_BYTES = 4 * 1024 * 1024
_MAX_DEPTH = 64
_EVAL_SCRIPT = 0
_PENDING, _FULFILLED = 0, 1


def set_stack(instance: Instance, top: int) -> None:
    """Let the guest's stack grow down from ``top``."""
    import wasmtime

    instance.stack_pointer.set_value(instance.store, wasmtime.Val.i32(top))


class Loader:
    """Drives one instance through loading; every guest call of it is host-driven and slow."""

    def __init__(self, instance: Instance, pointers: Pointers) -> None:
        self._instance = instance
        self._at = pointers
        set_stack(instance, pointers.stack_top)

    def make_base(self) -> Image:
        message = self._allocate(b"a module is missing that no static import names\0")
        self._instance.call("JS_SetModuleLoaderFunc", self._at.runtime, 0, LOADER_SLOT, message)
        harness = self._eval(_read_shim("harness.js"), "raw:harness", _EVAL_SCRIPT)
        parts = self._call_function(harness, _MAX_DEPTH)
        adopt = self._property(parts, "adopt")
        explain = self._property(parts, "explainLoad")
        answer = self._property(parts, "answer")
        self._fill_frame(answer)
        at = self._at
        self._at = Pointers(
            at.runtime, at.context, at.stack_low, at.stack_top, at.frame, at.buffer,
            at.buffer_bytes, adopt, explain,
        )  # fmt: skip
        return self.take_image()

    def add_globals(self, modules: Sequence[ModuleSource]) -> Image:
        """Compile the modules and evaluate the last, which defines globals."""
        self._evaluate(self._compile(modules), "the globals")
        self._instance.call("JS_RunGC", self._at.runtime)
        return self.take_image()

    def take_image(self) -> Image:
        return take_image(self._instance, self._at)

    def load(self, modules: Sequence[ModuleSource]) -> dict[str, bool]:
        """Compile the modules and run the last, the entry.

        Returns:
            Descriptor export to whether it is a function.
        """
        entry = self._compile(modules)
        self._evaluate(entry, modules[-1].name)
        namespace = self._guest_call("JS_GetModuleNamespace", self._at.context, entry & 0xFFFFFFFF)
        found = self._text(self._call_value(self._at.adopt, namespace))
        return {word[1:]: word[0] == "+" for word in found.split()}

    def make_slack(self) -> None:
        """Free memory at the heap's end, so that small calls need not grow the memory."""
        self._instance.call("JS_RunGC", self._at.runtime)
        block = self._instance.call("malloc", _SLACK_BYTES)
        if block:
            self._instance.call("free", block)

    def _compile(self, modules: Sequence[ModuleSource]) -> int:
        """Compile the last module; the engine asks its loader for what that imports."""
        block, size = self._place_sources(modules[:-1])
        last = modules[-1]
        value = self._eval(last.text, last.name, COMPILE_MODULE)
        if self._instance.call("js_module_set_import_meta", self._at.context, value, 0, 0) < 0:
            self._raise_pending(last.name)
        self._instance.set_sources(0)
        # Zeros, so that the freed block costs nothing in the image.
        self._instance.refresh()
        self._instance.write(block, bytes(size))
        self._instance.call("free", block)
        return value

    def _place_sources(self, modules: Sequence[ModuleSource]) -> tuple[int, int]:
        """Write the loader's list of sources; return its block and the block's size."""
        # The engine asks for each name once, so those it has already do no harm.
        texts = [source.name.encode() + b"\0" + source.text + b"\0" for source in modules]
        size = 16 * len(modules) + sum(map(len, texts)) + 1
        block = self._allocate(bytes(size))
        at = block + 16 * len(modules)
        records = b""
        for index, source in enumerate(modules):
            following = block + 16 * (index + 1) if index + 1 < len(modules) else 0
            text_at = at + len(source.name.encode()) + 1
            for word in (following, at, text_at, len(source.text)):
                records += word.to_bytes(4, "little")
            at += len(texts[index])
        self._instance.write(block, records + b"".join(texts))
        self._instance.set_sources(block if modules else 0)
        return block, size

    def _evaluate(self, module: int, name: str) -> None:
        context = self._at.context
        promise = self._guest_call("JS_EvalFunction", context, module)
        self._run_jobs()
        state = self._instance.call("JS_PromiseState", context, promise)
        if state == _PENDING:
            raise EngineUnsupported(
                "a top-level await waits for something that does not exist in this engine",
                where=name,
            )
        if state != _FULFILLED:
            self._raise_error(self._instance.call("JS_PromiseResult", context, promise), name)

    def _run_jobs(self) -> None:
        out = self._allocate(bytes(8))
        while True:
            status = self._instance.call("JS_ExecutePendingJob", self._at.runtime, out)
            if status == 0:
                return
            if status < 0:
                # A job's own exception belongs to a promise that nothing here awaits.
                self._instance.call("JS_GetException", self._at.context)

    def _eval(self, text: bytes, name: str, flags: int) -> int:
        where = self._allocate(text + b"\0")
        label = self._allocate(name.encode() + b"\0")
        value = self._instance.call("JS_Eval", self._at.context, where, len(text), label, flags)
        self._instance.call("free", where)
        self._instance.call("free", label)
        if (value >> 32) & 0xFFFFFFFF == EXCEPTION_TAG:
            self._raise_pending(name)
        return value

    def _guest_call(self, function: str, *args: int) -> int:
        value = self._instance.call(function, *args)
        if (value >> 32) & 0xFFFFFFFF == EXCEPTION_TAG:
            self._raise_pending(function)
        return value

    def _call_value(self, function: int, argument: int) -> int:
        vector = self._allocate(argument.to_bytes(8, "little", signed=argument < 0))
        return self._guest_call("JS_Call", self._at.context, function, UNDEFINED, 1, vector)

    def _call_function(self, function: int, number: int) -> int:
        return self._call_value(function, number)  # tag 0 is an int32

    def _property(self, value: int, name: str) -> int:
        label = self._allocate(name.encode() + b"\0")
        return self._guest_call("JS_GetPropertyStr", self._at.context, value, label)

    def _raise_pending(self, name: str) -> None:
        self._raise_error(self._instance.call("JS_GetException", self._at.context), name)

    def _raise_error(self, error: int, name: str) -> None:
        if not self._at.explain_load:
            raise InternalError("engine_start", f"the engine failed in {name}: {self._text(error)}")
        kind, _, message = self._text(self._call_value(self._at.explain_load, error)).partition(":")
        where = name.removeprefix(PLUGIN_ROOT)
        if kind == "unsupported":
            raise EngineUnsupported(message, where=where)
        if kind == "memory":
            raise DescriptorFailed("memory", "out of memory while loading", where=where)
        raise DescriptorFailed("threw", message, where=where)

    def _text(self, value: int) -> str:
        length = self._allocate(bytes(8))
        where = self._instance.call("JS_ToCStringLen2", self._at.context, length, value, 0)
        if not where:
            return "an error that cannot be shown"
        self._instance.refresh()
        size = int.from_bytes(self._instance.read(length, 4), "little")
        return self._instance.read(where, min(size, 65536)).decode("utf-8", "replace")

    def _allocate(self, data: bytes) -> int:
        where = self._instance.call("malloc", len(data)) & 0xFFFFFFFF
        if not where:
            raise DescriptorFailed("memory", "out of memory while loading")
        self._instance.refresh()
        self._instance.write(where, data)
        return where

    def _fill_frame(self, answer: int) -> None:
        at, label = self._at, self._allocate(b"arguments\0")
        words = (at.context, at.buffer, 0, label)
        frame = b"".join(word.to_bytes(4, "little") for word in words)
        frame += (answer & (1 << 64) - 1).to_bytes(8, "little") + bytes(4)
        frame += at.stack_top.to_bytes(4, "little")
        self._instance.write(at.frame, frame)


def _read_shim(name: str) -> bytes:
    return importlib.resources.files(__package__).joinpath("shims").joinpath(name).read_bytes()
