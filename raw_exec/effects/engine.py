"""One JavaScript engine per process, and modules loaded into copies of it.

``WasmEngine.open`` compiles (or reads) the guest and prepares a *base image*: an engine
that has the harness and the globals, and no plugin. Loading a plugin copies that image,
compiles the plugin's import graph under canonical names, evaluates the entry, and takes
an image again; see ``image.py`` for what that is for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InternalError
from .compiled import default_cache_dir, load_guest
from .failures import DescriptorFailed
from .graph import PLUGIN_ROOT, ModuleSource, Read, build_graph
from .guest import Guest, GuestFault, Instance
from .image import Image, Pointers, instantiate
from .loader import Loader, set_stack
from .nodeshims import find_globals, load_globals
from .ticker import Ticker

if TYPE_CHECKING:
    from .descriptor import DescriptorModule

__all__ = ["DEFAULT_LOAD_MS", "DEFAULT_MEMORY_BYTES", "WasmEngine"]

DEFAULT_MEMORY_BYTES = 64 * 1024 * 1024
DEFAULT_LOAD_MS = 2000

_STACK_BYTES = 1024 * 1024
_BUFFER_BYTES = 128 * 1024
_FRAME_BYTES = 64
_OVERHEAD_BYTES = 3 * 1024 * 1024
_MAX_BASES = 16


class WasmEngine:
    """The engine of one process. Thread-safe.

    Use ``open``. Nothing is imported, compiled or started before that.
    """

    def __init__(self, guest: Guest, clock: Callable[[], int]) -> None:
        self._guest = guest
        self._clock = clock
        self._ticker = Ticker(guest.engine.increment_epoch)
        self._lock = threading.Lock()
        self._bases: dict[frozenset[str], Image] = {}
        self._closed = False

    @classmethod
    def open(
        cls, *, cache_dir: Path | None = None, clock: Callable[[], int] = time.time_ns
    ) -> WasmEngine:
        """Compile the engine, or read the compiled one from the cache.

        Args:
            cache_dir: Private folder for the compiled engine; the user's cache by default.
                It must lie outside everything a sandbox may write.
            clock: What JavaScript sees as the time, nanoseconds since 1970. It stands
                still during a call. It is all that a call depends on besides its
                arguments: ``Math.random`` starts anew each time.

        Raises:
            InternalError: The pinned guest package is missing.
        """
        return cls(load_guest(cache_dir or default_cache_dir()), clock)

    def load(
        self,
        files: Mapping[str, bytes] | Read,
        entry: str,
        *,
        deadline_ms: int,
        memory_bytes: int = DEFAULT_MEMORY_BYTES,
        load_ms: int = DEFAULT_LOAD_MS,
    ) -> DescriptorModule:
        """Load the import graph of ``entry`` and return its descriptor functions.

        Args:
            files: The plugin's folder: relative POSIX path to content, or a function from
                such a path to content or ``None``.
            entry: For example ``"./index.mjs"``.
            deadline_ms: Wall time of each later call.
            memory_bytes: Most memory of the engine with this plugin in it.
            load_ms: Wall time of evaluating the modules.

        Raises:
            EngineUnsupported: It needs something this engine lacks.
            DescriptorFailed: It threw at import, or reached a limit.
        """
        from .descriptor import DescriptorModule

        read = files if callable(files) else files.get
        modules = build_graph(read, entry)
        image = self._base_image(_globals_of(modules))
        try:
            instance = instantiate(self._guest, image, memory_bytes)
        except MemoryError:
            raise DescriptorFailed(
                "memory", f"{memory_bytes} bytes do not hold the engine", where=entry
            ) from None
        try:
            loader = Loader(instance, image.pointers)
            instance.set_clock(self._clock())
            instance.call("JS_SetMemoryLimit", image.pointers.runtime, _js_bytes(memory_bytes))
            with self.deadline(instance, load_ms):
                exports = loader.load(modules)
                loader.make_slack()
            loaded = loader.take_image()
        except BaseException as error:
            instance.close()
            raise self.translate(error, load_ms, f"importing {entry}") from error
        return DescriptorModule(self, instance, loaded, exports, deadline_ms, memory_bytes)

    @contextmanager
    def deadline(self, instance: Instance, deadline_ms: int) -> Iterator[None]:
        """Let the body run guest code for at most ``deadline_ms`` of wall time."""
        ticks = self._ticker.start_call(deadline_ms)
        try:
            instance.store.set_epoch_deadline(ticks)
            yield
        finally:
            self._ticker.end_call()

    def translate(self, error: BaseException, deadline_ms: int, doing: str) -> BaseException:
        """Turn a trap into the failure it means; return anything else as it is."""
        import wasmtime

        if isinstance(error, GuestFault):
            return DescriptorFailed("trap", f"the engine broke while {doing}: {error}")
        if not isinstance(error, (wasmtime.Trap, wasmtime.WasmtimeError)):
            return error
        code = getattr(error, "trap_code", None)
        if code == wasmtime.TrapCode.INTERRUPT:
            return DescriptorFailed("deadline", f"{doing} took more than {deadline_ms} ms")
        if code == wasmtime.TrapCode.STACK_OVERFLOW:
            return DescriptorFailed("trap", f"{doing} recursed too deeply")
        return DescriptorFailed("trap", f"the engine stopped while {doing}: {_reason(error)}")

    def new_instance(self, image: Image, memory_bytes: int) -> Instance:
        """Return a fresh instance of a loaded plugin.

        Raises:
            DescriptorFailed: Code ``memory``: the host has none left for it.
        """
        import wasmtime

        try:
            return instantiate(self._guest, image, memory_bytes)
        except (MemoryError, wasmtime.WasmtimeError) as exc:
            raise DescriptorFailed("memory", f"no memory for another engine: {exc}") from exc

    def now_ns(self) -> int:
        return self._clock()

    def close(self) -> None:
        """Stop the deadline thread. Close the modules first. Idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._bases.clear()
        self._ticker.close()

    @property
    def is_ticking(self) -> bool:
        """Whether the deadline thread is awake (it sleeps when no call has run lately)."""
        return self._ticker.is_ticking

    def _base_image(self, names: frozenset[str]) -> Image:
        """Return an engine with these globals. The plain one is the start of all others."""
        with self._lock:
            if self._closed:
                raise InternalError("engine_closed", "the JavaScript engine is closed")
            image = self._bases.get(names)
            if image is None:
                plain = self._bases.get(frozenset()) or _make_base(self._guest, self._clock())
                image = _add_globals(self._guest, plain, names) if names else plain
                self._bases[frozenset()] = plain
                if len(self._bases) < _MAX_BASES:
                    self._bases[names] = image
            return image


def _globals_of(modules: list[ModuleSource]) -> frozenset[str]:
    names: set[str] = set()
    for source in modules:
        if source.name.startswith(PLUGIN_ROOT):
            names |= find_globals(source.text)
    return frozenset(names)


def _js_bytes(memory_bytes: int) -> int:
    # Invariant: below the store's limit, so that JavaScript sees "out of memory" first.
    return max(memory_bytes - _OVERHEAD_BYTES, 1024 * 1024)


def _reason(error: BaseException) -> str:
    return str(error).strip().rpartition("\n")[2].strip()


def _make_base(guest: Guest, now_ns: int) -> Image:
    instance = guest.new_instance(DEFAULT_MEMORY_BYTES)
    try:
        instance.set_clock(now_ns)
        instance.call("_initialize")
        low = (instance.call("malloc", _STACK_BYTES + 65536) + 65535) & ~65535
        top = low + _STACK_BYTES
        set_stack(instance, top)
        runtime = instance.call("JS_NewRuntime")
        context = instance.call("JS_NewContext", runtime)
        frame = instance.call("malloc", _FRAME_BYTES + _BUFFER_BYTES)
        pointers = Pointers(
            runtime, context, low, top, frame, frame + _FRAME_BYTES, _BUFFER_BYTES, 0, 0
        )
        return Loader(instance, pointers).make_base()
    finally:
        instance.close()


def _add_globals(guest: Guest, base: Image, names: frozenset[str]) -> Image:
    instance = instantiate(guest, base, DEFAULT_MEMORY_BYTES)
    try:
        return Loader(instance, base.pointers).add_globals(load_globals(names))
    finally:
        instance.close()
