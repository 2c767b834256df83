"""The modules a descriptor needs, ready to be compiled under canonical names.

Every static import is resolved here and its specifier is rewritten to the canonical name
of what it means (``/plugin/lib/x.mjs``, ``node:path``), so the engine needs no loader and
two versions of one package cannot be mixed up.
"""

from __future__ import annotations

import json
import posixpath
import re

from .failures import EngineUnsupported
from .lexer import Import, LexError, Scan, scan_module
from .nodeshims import ModuleSource, builtin_name, load_builtin
from .resolve import Read, Resolver

__all__ = [
    "MAX_GRAPH_BYTES",
    "MAX_GRAPH_MODULES",
    "PLUGIN_ROOT",
    "ModuleSource",
    "Read",
    "build_graph",
]

PLUGIN_ROOT = "/plugin/"
"""Where the engine believes the plugin's folder is; ``import.meta.url`` shows it."""

# Global objects of Node that have no substitute here. Code may ask whether they exist and
# go another way, so a wrong answer would not even be an error: a worker is asked instead.
_LACKING = re.compile(r"\b(Intl|WebAssembly)\b")

# The second name may be the first of the next pair: ``a.b.c``.
_MEMBER = re.compile(r"(?<![\w$])([A-Za-z_$][\w$]*)\s*\??\.\s*(?=([A-Za-z_$][\w$]*))")

MAX_GRAPH_MODULES = 2000
MAX_GRAPH_BYTES = 8 * 1024 * 1024


def build_graph(read: Read, entry: str) -> list[ModuleSource]:
    """Return every module that ``entry`` needs, the entry last.

    Args:
        read: From a path relative to the plugin's folder to bytes, or ``None``.
        entry: Such a path, ``"./"`` allowed before it.

    Raises:
        EngineUnsupported: With the reason, for a fallback to a descriptor worker.
    """
    try:
        return _Graph(read).build(posixpath.normpath(entry))
    except RecursionError:
        raise EngineUnsupported("a package.json of its nests too deeply") from None


class _Graph:
    def __init__(self, read: Read) -> None:
        self._read = read
        self._resolver = Resolver(read)
        self._sources: dict[str, ModuleSource] = {}
        self._scans: dict[str, tuple[str, Scan]] = {}
        self._builtins: dict[str, set[str]] = {}
        self._bytes = 0

    def build(self, entry: str) -> list[ModuleSource]:
        pending = [entry]
        while pending:
            path = pending.pop()
            if path in self._sources:
                continue
            if path.endswith(".json"):
                self._add(path, _json_module(self._load(path), path))
            else:
                pending += self._link(path)
        modules: dict[str, ModuleSource] = {}
        for name, names in sorted(self._builtins.items()):
            for source in load_builtin(name, frozenset(names)):
                modules.setdefault(source.name, source)
        last = self._sources.pop(entry)
        return [*modules.values(), *self._sources.values(), last]

    def _link(self, path: str) -> list[str]:
        """Rewrite one module's specifiers; return the paths it needs."""
        text, scan = self._scan(path)
        lacking = _LACKING.search(text) if "node_modules/" not in path else None
        if lacking:
            raise EngineUnsupported(f"it mentions {lacking[0]}, which is not here", where=path)
        targets: list[str] = []
        needs: list[str] = []
        members: dict[str, set[str]] | None = None
        for wanted in scan.imports:
            builtin = builtin_name(wanted.specifier)
            if builtin is not None:
                if wanted.namespace is not None and members is None:
                    members = _members(text)
                self._use_builtin(builtin, wanted, members or {}, path)
                targets.append(f"node:{builtin}")
                continue
            found = self._find(wanted, path)
            targets.append(PLUGIN_ROOT + found)
            needs.append(found)
        self._add(path, _rewrite(text, scan.imports, targets))
        return needs

    def _add(self, path: str, text: str) -> None:
        self._sources[path] = ModuleSource(
            PLUGIN_ROOT + path, text.encode("utf-8", "surrogatepass")
        )

    def _load(self, path: str, importer: str | None = None) -> bytes:
        data = self._read(path)
        if data is None:
            raise EngineUnsupported(f"{path!r} does not exist", where=importer)
        self._bytes += len(data)
        if self._bytes > MAX_GRAPH_BYTES or len(self._sources) >= MAX_GRAPH_MODULES:
            raise EngineUnsupported(
                f"the import graph is larger than {MAX_GRAPH_BYTES} bytes"
                f" or {MAX_GRAPH_MODULES} modules"
            )
        return data

    def _scan(self, path: str) -> tuple[str, Scan]:
        if path not in self._scans:
            try:
                text = self._load(path).decode("utf-8")
            except UnicodeDecodeError:
                raise EngineUnsupported("the file is not UTF-8", where=path) from None
            if "\0" in text:
                raise EngineUnsupported("the file contains a NUL character", where=path)
            try:
                self._scans[path] = text, scan_module(text)
            except LexError as error:
                raise EngineUnsupported(str(error), where=path) from None
        return self._scans[path]

    def _find(self, wanted: Import, importer: str) -> str:
        """Return the first candidate this engine can load, else say why Node's cannot."""
        reason: str | None = None
        for path in self._resolver.candidates(wanted.specifier, importer):
            problem = self._problem(path, wanted)
            if problem is None:
                return path
            reason = reason or problem
        raise EngineUnsupported(
            reason or f"package {wanted.specifier!r} has no main module", where=importer
        )

    def _problem(self, path: str, wanted: Import) -> str | None:
        if self._read(path) is None:
            return f"{wanted.specifier!r} leads to {path!r}, which does not exist"
        suffix = posixpath.splitext(path)[1]
        if suffix == ".json":
            return None if wanted.kind == "json" else f'{path!r} needs with {{ type: "json" }}'
        if suffix == ".node":
            return f"{path!r} is a native addon"
        if suffix == ".cjs":
            return f"{wanted.specifier!r} is CommonJS ({path})"
        if suffix == ".mjs":
            return None
        if suffix != ".js":
            return f"{path!r} is of an unknown kind"
        kind = self._resolver.package_type(path)
        if kind == "module" or (kind is None and self._scan(path)[1].is_module):
            return None
        return f"{wanted.specifier!r} is CommonJS ({path})"

    def _use_builtin(
        self, name: str, wanted: Import, members: dict[str, set[str]], importer: str
    ) -> None:
        names = self._builtins.setdefault(name, set())
        names.update(wanted.names)
        if wanted.namespace == "*":
            raise EngineUnsupported(f"cannot re-export all of {name!r}", where=importer)
        if wanted.namespace is not None:
            names.update(members.get(wanted.namespace, ()))


def _members(text: str) -> dict[str, set[str]]:
    """Return, for each name in a text, what is asked of it with a dot."""
    found: dict[str, set[str]] = {}
    for match in _MEMBER.finditer(text):
        found.setdefault(match.group(1), set()).add(match.group(2))
    return found


def _rewrite(text: str, imports: tuple[Import, ...], targets: list[str]) -> str:
    parts: list[str] = []
    at = 0
    for wanted, target in zip(imports, targets, strict=True):
        parts += [text[at : wanted.start], json.dumps(target)]
        at = wanted.attributes[1] if wanted.attributes else wanted.end
    parts.append(text[at:])
    return "".join(parts)


def _json_module(data: bytes, path: str) -> str:
    try:
        text = data.decode("utf-8-sig")
        json.loads(text)
    except (ValueError, RecursionError):
        raise EngineUnsupported("the file is not valid JSON", where=path) from None
    return f"export default JSON.parse({json.dumps(text)});\n"
