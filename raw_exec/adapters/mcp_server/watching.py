"""Noticing that a configuration or its tools were changed, and serving the new ones.

Files are looked at, not listened to: that works on every file system. A change counts once
nothing has changed for one more look, so that an edit is not taken half written.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import trio

from ...config import Config
from ...errors import RawExecError
from ...hooks.roots import hook_roots
from ...tools import tool_roots
from .generation import Opening
from .host import Host

__all__ = ["INTERVAL_SECONDS", "ToolSource", "fingerprint", "watch_tools", "watched_paths"]

_log = logging.getLogger(__name__)

INTERVAL_SECONDS: Final = 0.5
_MAX_FILES: Final = 20_000
_SOURCES: Final = ("agent", "local", "builtin")


class ToolSource:
    """Where the tools of a server come from.

    Args:
        load: Reads the configuration.
        opening: Opens a runtime for one.
        keeps_history: Whether that runtime keeps a history.
    """

    def __init__(
        self,
        load: Callable[[], Config],
        opening: Callable[[Config], Opening],
        *,
        keeps_history: bool,
    ) -> None:
        self._load = load
        self._opening = opening
        self._keeps_history = keeps_history
        self._config: Config | None = None
        self.served: tuple[Any, ...] = ()
        """What ``look`` returned when the tools were read that are served."""

    def look(self) -> tuple[Any, ...]:
        """Return what changes when the files do that the tools are made of."""
        return () if self._config is None else fingerprint(watched_paths(self._config))

    async def serve(self, host: Host) -> bool:
        """Let a host serve the tools as they are on disk now.

        Returns:
            Whether its clients are told of other tools than before.

        Raises:
            RawExecError: Something in them is wrong; the host serves what it did before.
        """
        config, self.served = await trio.to_thread.run_sync(self._read)
        return await host.replace(self._opening(config), keeps_history=self._keeps_history)

    def _read(self) -> tuple[Config, tuple[Any, ...]]:
        self._config = self._load()
        # Race: what is edited from here on differs from this, whether it was read or not.
        seen = self.look()
        self._config = self._load()
        return self._config, seen


def watched_paths(config: Config) -> list[Path]:
    """Return the files and folders that a configuration's tools are made of."""
    paths = [] if config.path is None else [config.path]
    tools = tool_roots(config)
    for use in config.agent.tools_use:
        source, _, rest = use.ref.partition("/")
        if source in _SOURCES and rest:
            paths.append(tools.path(source) / rest)  # type: ignore[arg-type]
    roots = hook_roots(config)
    for ref in config.agent.hooks_use:
        source, _, rest = ref.partition("/")
        if source in ("agent", "local") and rest:
            paths.append(roots.path(source) / rest)  # type: ignore[arg-type]
    return paths


def fingerprint(paths: Iterable[Path]) -> tuple[Any, ...]:
    """Return what changes when a file in these does. Installed packages count by their lock."""
    found: list[Any] = []
    for path in paths:
        for file in _files(path):
            if len(found) >= _MAX_FILES:
                return tuple(found)
            try:
                status = os.stat(file)
            except OSError:
                found.append((file, None))
            else:
                found.append((file, status.st_mtime_ns, status.st_size, status.st_ino))
    return tuple(found)


def _files(path: Path) -> Iterator[str]:
    if not path.is_dir():
        yield str(path)
        return
    for folder, names, files in os.walk(path):
        if "node_modules" in names:
            names.remove("node_modules")
            yield os.path.join(folder, "node_modules", ".package-lock.json")
        names.sort()
        for name in sorted(files):
            yield os.path.join(folder, name)


async def watch_tools(
    host: Host, source: ToolSource, *, interval_seconds: float = INTERVAL_SECONDS
) -> None:
    """Serve the tools anew whenever they change, until cancelled.

    What is broken after a change is told of, and the tools before it stay.
    """
    served = source.served
    if len(served) >= _MAX_FILES:
        _log.warning("only %d files of the tools are looked at for changes", _MAX_FILES)
    while True:
        await trio.sleep(interval_seconds)
        now = await trio.to_thread.run_sync(source.look)
        if now == served:
            continue
        await trio.sleep(interval_seconds)
        if await trio.to_thread.run_sync(source.look) != now:
            continue  # still being written
        try:
            changed = await source.serve(host)
        except Exception as exc:
            served = now  # until the next change
            _log.warning("the tools are as before: %s", _told(exc))
        else:
            served = source.served
            _log.info("the tools were read again; %s", "they differ" if changed else "no change")


def _told(exc: BaseException) -> str:
    """Say what went wrong in one line, without the groups that nurseries put round it."""
    if isinstance(exc, BaseExceptionGroup):
        return _told(exc.exceptions[0])
    if not isinstance(exc, RawExecError):
        return f"{type(exc).__name__}: {exc}"
    problems: Sequence[Any] = getattr(exc, "problems", ())
    return str(problems[0]) if len(problems) == 1 else str(exc)
