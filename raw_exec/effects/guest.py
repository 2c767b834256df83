"""The guest: QuickJS-NG as WebAssembly, and the two small modules around it.

Three modules are instantiated together, so that nothing of the host can be called:

1. *trampolines* implement the WASI imports of the guest. None does anything: each
   returns "not supported", except the clock, which jumps through a table.
2. *guest*, the engine, changed in two places: its ``__stack_pointer`` global is exported,
   and so is its function table, with one slot more, for the loader.
3. *driver* fills that table (a clock that shows what the host last wrote), holds the one
   function a call crosses into (parse the arguments, call, get the result's bytes), and
   the module loader, which finds sources in a list that the host put into the memory.

Security: there are no host functions, so guest code can only compute and write its own
memory, and the epoch deadline covers every instruction it executes.

The exported stack pointer: the guest is linked with a 64 KiB stack *above* its static
data and was compiled without stack checks, so recursion would overwrite that data before
wasmtime's own limit (1 MiB of native stack, of which every wasm frame uses some) traps.
The engine therefore moves the stack to 1 MiB of heap before any plugin code runs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .driver import DRIVER_WAT

if TYPE_CHECKING:  # wasmtime takes 60 ms to import, and many runtimes never need it
    import wasmtime

__all__ = ["NATIVE_STACK_BYTES", "Guest", "GuestFault", "Instance"]

NATIVE_STACK_BYTES = 1024 * 1024
"""Deepest native stack of a call: about 1,100 JavaScript frames."""

_ENOSYS = 52


class GuestFault(Exception):
    """The guest named memory that it does not have: it is broken, or was broken into."""


class Guest:
    """The compiled modules and the wasmtime engine they belong to."""

    def __init__(self, engine: wasmtime.Engine, module: wasmtime.Module) -> None:
        import wasmtime

        self.engine = engine
        self.module = module
        self._imports = [(item.name or "", item.type) for item in module.imports]
        self._trampolines = wasmtime.Module(engine, self._trampolines_wat())
        self._driver = wasmtime.Module(engine, DRIVER_WAT)
        self._driver_imports = [(i.module, i.name or "") for i in self._driver.imports]

    def _trampolines_wat(self) -> str:
        functions = []
        for name, kind in self._imports:
            params = " ".join(str(p) for p in kind.params)  # type: ignore[union-attr]
            results = " ".join(str(r) for r in kind.results)  # type: ignore[union-attr]
            if name == "clock_time_get":
                body = (
                    "(call_indirect (param i32 i64 i32) (result i32)"
                    " (local.get 0) (local.get 1) (local.get 2) (i32.const 0))"
                )
            elif name.startswith("environ_"):
                # The two sizes it should store are already zero in fresh memory.
                body = "(i32.const 0)"
            elif results:
                body = f"(i32.const {_ENOSYS})"
            else:
                body = "unreachable"
            result = f"(result {results})" if results else ""
            functions.append(f'(func (export "{name}") (param {params}) {result} {body})')
        return f'(module (table (export "table") 1 funcref) {" ".join(functions)})'

    def new_instance(self, memory_bytes: int) -> Instance:
        """Instantiate the three modules in a store of their own.

        Args:
            memory_bytes: Most linear memory it may ever have.
        """
        import wasmtime

        store = wasmtime.Store(self.engine)
        store.set_limits(memory_size=memory_bytes)
        store.set_epoch_deadline(1 << 40)
        trampolines = wasmtime.Instance(store, self._trampolines, []).exports(store)
        imports = [trampolines[name] for name, _ in self._imports]
        guest = wasmtime.Instance(store, self.module, imports).exports(store)
        given = {"guest": guest, "trampolines": trampolines}
        driver = wasmtime.Instance(
            store, self._driver, [given[module][name] for module, name in self._driver_imports]
        ).exports(store)
        return Instance(store, guest, driver)


class Instance:
    """One guest in its own store: a memory and functions to call.

    Not thread-safe. After a trap it must not be used again.
    """

    def __init__(self, store: wasmtime.Store, guest: Any, driver: Any) -> None:
        self.store = store
        self.memory: wasmtime.Memory = guest["memory"]
        self.stack_pointer: wasmtime.Global = guest["__stack_pointer"]
        self._guest = guest
        self._run = bind_run(store, driver["run"])
        self._set_clock = driver["set_clock"]
        self._set_sources = driver["set_sources"]
        self.refresh()

    def refresh(self) -> None:
        """Look up where the memory is and how long, after it may have grown."""
        self.size: int = self.memory.data_len(self.store)
        self.address = ctypes.addressof(self.memory.data_ptr(self.store).contents)

    def call(self, name: str, *args: int) -> int:
        """Call one of the guest's C functions (slow: 30-100 µs, for loading only)."""
        result = self._guest[name](self.store, *args)
        return 0 if result is None else int(result)

    def run(self, frame: int, time_ns: int) -> int:
        """Cross into the driver once; the meaning of the status is in the driver above."""
        return self._run(frame, time_ns)

    def set_clock(self, time_ns: int) -> None:
        self._set_clock(self.store, time_ns)

    def set_sources(self, first: int) -> None:
        self._set_sources(self.store, first)

    def read(self, at: int, size: int) -> bytes:
        if at < 0 or size < 0 or at + size > self.size:
            raise GuestFault(f"it named {size} bytes at {at}")
        return ctypes.string_at(self.address + at, size)

    def write(self, at: int, data: bytes) -> None:
        if at < 0 or at + len(data) > self.size:
            raise GuestFault(f"it named {len(data)} bytes at {at}")
        ctypes.memmove(self.address + at, data, len(data))

    def close(self) -> None:
        self.store.close()


def bind_run(
    store: wasmtime.Store, function: wasmtime.Func, *, fast: bool = True
) -> Callable[[int, int], int]:
    """Return a callable for the driver's ``run``.

    wasmtime's ``Func.__call__`` asks for the function's type and converts each value
    through it: 30-100 µs. The C call below takes 4 µs. It is stable C API, but the names
    Python reaches it by are not public, so without them the slow way is used.
    """
    try:
        from wasmtime import _ffi

        if not fast:
            raise AttributeError("slow way asked for")
        call = _ffi.wasmtime_func_call_unchecked
        values = (_ffi.wasmtime_val_raw_t * 2)()
        pointer = ctypes.cast(values, ctypes.POINTER(_ffi.wasmtime_val_raw_t))
        trap = ctypes.POINTER(_ffi.wasm_trap_t)()
        trap_reference = ctypes.byref(trap)
        # One pointer value, so that each call passes it without making a new object.
        target = ctypes.byref(function._func)
        context = store._context()
    except (ImportError, AttributeError):
        return lambda frame, time_ns: int(function(store, frame, time_ns))

    def run(frame: int, time_ns: int) -> int:
        values[0].i32 = frame
        values[1].i64 = time_ns
        error = call(context, target, pointer, 2, trap_reference)
        if trap or error:
            _raise(error, trap)
        return int(values[0].i32)

    return run


def _raise(error: Any, trap: Any) -> None:
    import wasmtime

    if trap:
        raise wasmtime.Trap._from_ptr(trap)
    raise wasmtime.WasmtimeError._from_ptr(error)
