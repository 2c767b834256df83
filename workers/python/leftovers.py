"""What a handler left behind in its process, counted above the state after the import.

The supervisor ends a worker that is not as it was. It takes the numbers as a hint: a lie
keeps nothing alive but the plugin's own worker.

About 20 us a call, so the costly figures are not taken every time: descriptors are counted
when the lowest free number moved, and threads of C code, descriptors above a gap and memory
every ``CALLS_PER_FULL_COUNT`` calls.
"""

from __future__ import annotations

import atexit
import builtins
import os
import sys
from _signal import ITIMER_PROF, ITIMER_REAL, ITIMER_VIRTUAL, getitimer, getsignal  # type: ignore[import-not-found]
from _thread import _count as count_python_threads
from os import P_ALL, WEXITED, WNOHANG, WNOWAIT, close, dup, getcwd, listdir, read, stat, waitid
from os import open as open_fd
from time import sleep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

_builtin_names = vars(builtins)
# Security: as in frames.py.
globals()["__builtins__"] = dict(_builtin_names)

__all__ = ["Leftovers", "count_descriptors"]

CALLS_PER_FULL_COUNT = 16
SETTLING_LOOKS = 10
SETTLING_SECONDS = 0.0002
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

_TIMERS = (ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF)
_SIGNALS = tuple(range(1, 32))
_at_exit_count = atexit._ncallbacks
_get_trace = sys.gettrace
_get_profile = sys.getprofile
_modules = sys.modules
_environment = os.environ


class Leftovers:
    """Compares the process with how it was when this object was made.

    Args:
        own_threads: Threads of the worker itself that run now.
    """

    __slots__ = (
        "_builtins",
        "_calls_until_full_count",
        "_cwd",
        "_environment",
        "_fds",
        "_fds_left",
        "_hooks",
        "_lowest_fd",
        "_modules",
        "_python_threads",
        "_rss_bytes",
        "_signals",
        "_threads",
        "_threads_left",
        "_watched",
    )

    def __init__(self, own_threads: int) -> None:
        self._threads = _count_threads() - own_threads
        self._threads_left = 0
        self._python_threads = count_python_threads() - own_threads
        self._fds = count_descriptors()
        self._fds_left = 0
        self._lowest_fd = _lowest_free_descriptor()
        self._cwd = _cwd()
        self._environment = _variables()
        self._signals = [getsignal(number) for number in _SIGNALS]
        self._hooks = _at_exit_count()
        self._builtins = dict(_builtin_names)
        self._modules: dict[str, ModuleType] = dict(_modules)
        self._watched = _watched()
        self._calls_until_full_count = 0
        self._rss_bytes = 0

    def measure(self, own_threads: int, own_fds: int, tasks: int) -> dict[str, int]:
        """Return the STATE record.

        Args:
            own_threads: Threads of the worker itself that run now.
            own_fds: Descriptors that the worker itself opened since the import.
            tasks: Asynchronous tasks and timers that the handler left unfinished.
        """
        self._calls_until_full_count -= 1
        full = self._calls_until_full_count < 0
        if full:
            self._calls_until_full_count = CALLS_PER_FULL_COUNT - 1
            self._rss_bytes = _resident_bytes()
            expected = own_threads + self._threads
            self._threads_left = _settled(lambda: _count_threads() - expected)
        if full or self._fds_left or _lowest_free_descriptor() != self._lowest_fd:
            self._fds_left = max(0, count_descriptors() - own_fds - self._fds)
            self._lowest_fd = _lowest_free_descriptor()
        usual = own_threads + self._python_threads
        python_threads = _settled(lambda: count_python_threads() - usual)
        return {
            "timers": sum([getitimer(timer)[0] > 0 for timer in _TIMERS]),
            "handles": tasks,
            "listeners": self._count_hooks(),
            "threads": max(python_threads, self._threads_left),
            "children": _count_children(),
            "fds": self._fds_left,
            "rss_bytes": self._rss_bytes,
            "env_changed": int(_variables() != self._environment),
            "cwd_changed": int(_cwd() != self._cwd),
            "builtins_changed": int(self._is_changed()),
        }

    def _count_hooks(self) -> int:
        count = max(0, _at_exit_count() - self._hooks)
        count += (_get_trace() is not None) + (_get_profile() is not None)
        now = [getsignal(number) for number in _SIGNALS]
        if now != self._signals:
            count += sum(a is not b for a, b in zip(now, self._signals, strict=True))
        return count

    def _is_changed(self) -> bool:
        # Comparing containers takes identity first, so an untouched one runs no plugin code.
        if _builtin_names != self._builtins or _watched() != self._watched:
            return True
        if len(_modules) != len(self._modules) and self._modules.items() <= _modules.items():
            # The handler imported more, which is no change to what was there.
            self._modules = dict(_modules)
        return _modules != self._modules


def _settled(count_surplus: Callable[[], int]) -> int:
    # A thread that was joined is still counted for a moment.
    for _ in range(SETTLING_LOOKS):
        if count_surplus() <= 0:
            return 0
        sleep(SETTLING_SECONDS)
    return max(0, count_surplus())


def _count_threads() -> int:
    try:
        return stat("/proc/self/task").st_nlink - 3
    except OSError:
        return 0


def count_descriptors() -> int:
    """Return how many descriptors are open, or 0 when that can't be known."""
    try:
        # The kernel says the number of open descriptors as the size since 6.2.
        return stat("/proc/self/fd").st_size or len(listdir("/proc/self/fd"))
    except OSError:
        return 0


def _lowest_free_descriptor() -> int:
    try:
        fd = dup(0)
    except OSError:
        return -1
    close(fd)
    return fd


def _count_children() -> int:
    # 0 or 1: the kernel says cheaply that there are none, and one is enough to retire.
    try:
        waitid(P_ALL, 0, WEXITED | WNOHANG | WNOWAIT)
    except OSError:
        return 0
    return 1


def _cwd() -> str:
    try:
        return getcwd()
    except OSError:
        return ""


def _variables() -> dict[Any, Any]:
    variables: dict[Any, Any] = _environment._data  # type: ignore[attr-defined]
    return dict(variables)


def _watched() -> tuple[object, ...]:
    # Read by name each time: this is what a plugin may have replaced.
    return (
        *(os.open, os.read, os.write, os.stat, os.listdir, os.getcwd, os.environ, os._exit),
        *(os.fork, os.path, sys.stdout, sys.stderr, sys.stdin, sys.modules, sys.argv),
        *(sys.excepthook, sys.unraisablehook, sys.displayhook, sys.exit, sys.settrace),
        *map(id, sys.meta_path),
        *map(id, sys.path_hooks),
        *sys.path,
    )


def _resident_bytes() -> int:
    try:
        fd = open_fd("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return int(read(fd, 200).split()[1]) * PAGE_BYTES
        finally:
            close(fd)
    except OSError:
        return 0
