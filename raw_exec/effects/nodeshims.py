"""What a descriptor gets for Node's builtin modules.

Pure ones (``shims/*.js``) are real. The others import fine, whatever names are asked of
them, and throw when used: code that only its handler reaches must not keep a plugin's
descriptors from loading.
"""

from __future__ import annotations

import importlib.resources
import json
import re
from dataclasses import dataclass
from functools import cache

from .failures import EngineUnsupported

__all__ = ["ModuleSource", "builtin_name", "find_globals", "load_builtin", "load_globals"]


@dataclass(frozen=True, slots=True)
class ModuleSource:
    """One ES module under the name it is compiled with."""

    name: str
    text: bytes


_PURE = {
    "assert": "assert",
    "assert/strict": "assert",
    "buffer": "buffer",
    "events": "events",
    "os": "os",
    "path": "path",
    "path/posix": "path",
    "process": "process",
    "querystring": "querystring",
    "string_decoder": "string_decoder",
    "url": "url",
    "util": "util",
    "util/types": "util_types",
}

_UNAVAILABLE = frozenset(
    [
        "async_hooks",
        "child_process",
        "cluster",
        "console",
        "constants",
        "crypto",
        "dgram",
        "diagnostics_channel",
        "dns",
        "dns/promises",
        "domain",
        "fs",
        "fs/promises",
        "http",
        "http2",
        "https",
        "inspector",
        "inspector/promises",
        "module",
        "net",
        "path/win32",
        "perf_hooks",
        "punycode",
        "readline",
        "readline/promises",
        "repl",
        "stream",
        "stream/consumers",
        "stream/promises",
        "stream/web",
        "sys",
        "timers",
        "timers/promises",
        "tls",
        "trace_events",
        "tty",
        "v8",
        "vm",
        "worker_threads",
        "zlib",
    ]
)
_PREFIX_ONLY = frozenset(("sea", "sqlite", "test", "test/reporters", "wasi"))

# Globals that Node has and the engine has not: name to the shim that defines it.
_GLOBALS = {
    "Buffer": "buffer",
    "TextDecoder": "encoding",
    "TextEncoder": "encoding",
    "URL": "url",
    "URLSearchParams": "url",
    "process": "process",
} | dict.fromkeys(
    [
        "AbortController",
        "AbortSignal",
        "Blob",
        "Event",
        "EventTarget",
        "File",
        "FormData",
        "Headers",
        "MessageChannel",
        "ReadableStream",
        "Request",
        "Response",
        "TransformStream",
        "WritableStream",
        "clearImmediate",
        "clearInterval",
        "clearTimeout",
        "console",
        "crypto",
        "fetch",
        "global",
        "setImmediate",
        "setInterval",
        "setTimeout",
        "structuredClone",
    ],
    "globals",
)
_GLOBAL_NAMES = re.compile(rb"\b(?:" + "|".join([*_GLOBALS, "globalThis"]).encode() + rb")\b")
_IMPORTED = re.compile(rb'from "raw:(\w+)";')


def builtin_name(specifier: str) -> str | None:
    """Return the builtin a specifier means, without ``node:``; ``None`` if it means none.

    Raises:
        EngineUnsupported: It starts with ``node:`` and this engine does not know it.
    """
    if specifier.startswith("node:"):
        name = specifier.removeprefix("node:")
        if name in _PURE or name in _UNAVAILABLE:
            return name
        known = "" if name in _PREFIX_ONLY else ", which Node does not know either"
        raise EngineUnsupported(f"unsupported builtin {specifier!r}{known}")
    return specifier if specifier in _PURE or specifier in _UNAVAILABLE else None


def find_globals(text: bytes) -> frozenset[str]:
    """Return the globals that a module may use, by their mere mention.

    Every engine is copied back after every call, so what a plugin cannot use is left out.
    """
    found = {name.decode() for name in _GLOBAL_NAMES.findall(text)}
    return frozenset(_GLOBALS) if "globalThis" in found else frozenset(found)


def load_globals(names: frozenset[str]) -> list[ModuleSource]:
    """Return modules that define these globals; evaluating the last one does it."""
    lines: list[str] = []
    sources: dict[str, ModuleSource] = {}
    for name in sorted(names):
        shim = _GLOBALS[name]
        sources |= _with_needs(shim)
        lines.append(f'import {{ {name} as _{name} }} from "raw:{shim}";')
        lines.append(
            f'Object.defineProperty(globalThis, "{name}",'
            f" {{ value: _{name}, writable: true, configurable: true }});"
        )
    return [*sources.values(), ModuleSource("raw:start", "\n".join(lines).encode())]


def load_builtin(name: str, wanted: frozenset[str]) -> list[ModuleSource]:
    """Return the modules behind ``node:NAME`` for a graph that asks for ``wanted``."""
    shim = _PURE.get(name)
    lines = ['import unavailable from "raw:unavailable";']
    missing = wanted - {"default"}
    sources = _with_needs("unavailable")
    if shim is None:
        lines.append(f"export default unavailable({json.dumps(name)});")
    else:
        sources |= _with_needs(shim)
        lines.append(f'export * from "raw:{shim}";')
        lines.append(f'export {{ default }} from "raw:{shim}";')
        missing -= _exports(shim)
    for index, export in enumerate(sorted(missing)):
        shown = json.dumps(f"{name}.{export}")
        lines.append(f"const x{index} = unavailable({shown});")
        lines.append(f"export {{ x{index} as {json.dumps(export)} }};")
    return [*sources.values(), ModuleSource(f"node:{name}", "\n".join(lines).encode())]


@cache
def _needs(name: str) -> tuple[str, ...]:
    return tuple(found.decode() for found in _IMPORTED.findall(_shim(name).text))


def _with_needs(name: str) -> dict[str, ModuleSource]:
    sources: dict[str, ModuleSource] = {}
    for other in _needs(name):
        sources |= _with_needs(other)
    sources[f"raw:{name}"] = _shim(name)
    return sources


@cache
def _shim(name: str) -> ModuleSource:
    file = importlib.resources.files(__package__).joinpath("shims").joinpath(f"{name}.js")
    return ModuleSource(f"raw:{name}", file.read_bytes())


@cache
def _exports(name: str) -> frozenset[str]:
    """Names a shim exports: each ends with one plain ``export { a, b as c };``."""
    found = re.search(rb"\nexport \{([^}]*)\};\s*\Z", _shim(name).text)
    assert found is not None  # noqa: S101  (Invariant: our own files)
    names = found.group(1).decode().replace("\n", " ").split(",")
    return frozenset(part.split()[-1] for part in names if part.strip())
