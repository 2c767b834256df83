"""Importing the plugin, in an interpreter that shows it nothing of this worker."""

from __future__ import annotations

import builtins
import importlib.util
import os
import sys
from types import ModuleType

from .failures import describe_exception, failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TextIO

globals()["__builtins__"] = dict(vars(builtins))

__all__ = ["MODULE_NAME", "LoadFailed", "import_plugin", "isolate_imports", "open_logs"]

MODULE_NAME = "raw_plugin"
_HIDDEN = ("msgpack", "workers", "launcher", "python")
_EXPORTS = {
    "handler": ("handler",),
    "validateArgs": ("validate_args", "validateArgs"),
    "describeEffects": ("describe_effects", "describeEffects"),
}


class LoadFailed(Exception):
    """The plugin cannot be used.

    Args:
        record: The error as sent to the supervisor.
    """

    def __init__(self, record: dict[str, Any]) -> None:
        super().__init__(record["message"])
        self.record = record


def isolate_imports(workers_folder: str) -> None:
    """Reduce ``sys.path`` to the standard library, and hide the modules of our own."""
    library = os.path.dirname(os.__file__)
    archive = f"python{sys.version_info[0]}{sys.version_info[1]}.zip"
    sys.path[:] = [
        entry
        for entry in sys.path
        if entry == library
        or entry.startswith(library + os.sep + "lib-dynload")
        or os.path.basename(entry) == archive
    ]
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        ours = file.startswith(workers_folder + os.sep)
        # A namespace package has no file, only the name that its modules have.
        if ours or name.split(".", 1)[0] in _HIDDEN:
            del sys.modules[name]
    sys.modules["__main__"] = ModuleType("__main__")
    sys.path_importer_cache.clear()
    sys.argv = [""]
    # The plugin's folder is not writable for it, and must not look as if it were.
    sys.dont_write_bytecode = True


def open_logs() -> tuple[TextIO, TextIO]:
    """Replace ``sys.stdout`` and ``sys.stderr``: line by line, never failing on a character."""
    logs = []
    for fd in (1, 2):
        logs.append(
            open(  # noqa: SIM115 - lives as long as the process
                fd, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False
            )
        )
    stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    for name, stream in zip(("stdout", "stderr", "stdin"), (*logs, stdin), strict=True):
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    return logs[0], logs[1]


def import_plugin(entry: str) -> dict[str, Callable[..., Any]]:
    """Import the file and return its functions under the contract's names.

    Raises:
        LoadFailed: ``import_failed``, ``missing_handler`` or ``bad_export``.
    """
    folder = os.path.dirname(entry)
    packages = os.path.join(folder, "site-packages")
    sys.path[:0] = [folder, packages] if os.path.isdir(packages) else [folder]
    try:
        spec = importlib.util.spec_from_file_location(MODULE_NAME, entry)
        if spec is None or spec.loader is None:
            raise ImportError(f"{os.path.basename(entry)!r} is not a Python source file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[MODULE_NAME] = module
        spec.loader.exec_module(module)
    except BaseException as exc:
        # SystemExit and KeyboardInterrupt too: they are how the import failed.
        raise LoadFailed(describe_exception("import_failed", exc)) from None
    return _take_exports(module)


def _take_exports(module: ModuleType) -> dict[str, Callable[..., Any]]:
    exports: dict[str, Callable[..., Any]] = {}
    for name, spellings in _EXPORTS.items():
        for spelling in spellings:
            if spelling not in module.__dict__:
                continue
            value = module.__dict__[spelling]
            if not callable(value):
                text = f"the export {spelling} is not callable"
                raise LoadFailed(failure("bad_export", "TypeError", text))
            exports.setdefault(name, value)
    if "handler" not in exports:
        text = "the plugin defines no function named handler"
        raise LoadFailed(failure("missing_handler", "TypeError", text))
    return exports
