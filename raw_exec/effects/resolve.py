"""Node's ESM resolution, over a plugin's own files only.

Source: nodejs.org/api/esm.html#resolution-algorithm-specification. One addition: where
Node's conditions lead to CommonJS, a package's own ESM build (``exports`` without the
``node`` condition, then ``module``) is used instead.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias
from urllib.parse import unquote

from .failures import EngineUnsupported

__all__ = ["Read", "Resolver"]

Read: TypeAlias = Callable[[str], bytes | None]

_NODE = frozenset(("node", "import", "module-sync", "node-addons", "default"))
_NEUTRAL = frozenset(("import", "module", "default"))


class Resolver:
    """Resolves specifiers to paths below the plugin's folder.

    Args:
        read: From a relative POSIX path to the file's bytes, or ``None``.
    """

    def __init__(self, read: Read) -> None:
        self._read = read
        self._packages: dict[str, dict[str, Any] | None] = {}

    def candidates(self, specifier: str, importer: str) -> Iterator[str]:
        """Yield the paths a specifier may mean: Node's answer first.

        Raises:
            EngineUnsupported: It is of a kind that cannot be resolved here.
        """
        folder = posixpath.dirname(importer)
        if specifier.startswith(("./", "../")) or specifier in (".", ".."):
            yield self._inside(posixpath.join(folder, _path_of(specifier)), specifier, importer)
        elif specifier.startswith("#"):
            yield from self._internal(specifier, importer)
        elif specifier.startswith("/") or ":" in specifier.partition("/")[0]:
            raise EngineUnsupported(f"cannot import {specifier!r} by URL", where=importer)
        else:
            yield from self._package(specifier, importer)

    def package_type(self, path: str) -> str | None:
        """Return ``type`` of the package the file belongs to."""
        manifest = self._scope(path)[1]
        kind = manifest.get("type") if manifest else None
        return kind if isinstance(kind, str) else None

    def _inside(self, path: str, specifier: str, importer: str) -> str:
        path = posixpath.normpath(path)
        if path.startswith(("../", "/")) or path == "..":
            raise EngineUnsupported(
                f"{specifier!r} lies outside the plugin's folder", where=importer
            )
        return path

    def _package(self, specifier: str, importer: str) -> Iterator[str]:
        parts = specifier.split("/")
        size = 2 if specifier.startswith("@") else 1
        name, subpath = "/".join(parts[:size]), "/".join([".", *parts[size:]])
        scope, own = self._scope(importer)
        if own and own.get("name") == name and own.get("exports") is not None:
            yield from self._exports(scope, own["exports"], subpath, specifier, importer)
            return
        for root in _ancestors(posixpath.dirname(importer)):
            folder = posixpath.join(root, "node_modules", name)
            manifest = self._manifest(folder)
            if manifest is not None:
                yield from self._in_package(folder, manifest, subpath, specifier, importer)
                return
        raise EngineUnsupported(f"package {name!r} is not in node_modules", where=importer)

    def _in_package(
        self, folder: str, manifest: dict[str, Any], subpath: str, specifier: str, importer: str
    ) -> Iterator[str]:
        exports = manifest.get("exports")
        if exports is not None:
            yield from self._exports(folder, exports, subpath, specifier, importer)
        elif subpath != ".":
            yield posixpath.normpath(posixpath.join(folder, _path_of(subpath)))
        else:
            main = manifest.get("main")
            names = [main] if isinstance(main, str) and main else []
            for name in [n + end for n in names for end in ("", ".js", "/index.js")] + ["index.js"]:
                path = posixpath.normpath(posixpath.join(folder, name))
                if self._read(path) is not None:
                    yield path
                    break
        module = manifest.get("module")
        if subpath == "." and isinstance(module, str):
            yield posixpath.normpath(posixpath.join(folder, module))

    def _exports(
        self, folder: str, exports: Any, subpath: str, specifier: str, importer: str
    ) -> Iterator[str]:
        if not (isinstance(exports, dict) and any(key.startswith(".") for key in exports)):
            exports = {".": exports}
        found = False
        for conditions in (_NODE, _NEUTRAL):
            target = _match(exports, subpath, conditions)
            if isinstance(target, str) and target.startswith("./"):
                found = True
                path = posixpath.normpath(posixpath.join(folder, target))
                yield self._inside(path, specifier, importer)
        if not found:
            raise EngineUnsupported(f"{specifier!r} is not exported by its package", where=importer)

    def _internal(self, specifier: str, importer: str) -> Iterator[str]:
        folder, manifest = self._scope(importer)
        imports = manifest.get("imports") if manifest else None
        found = False
        for conditions in (_NODE, _NEUTRAL):
            target = _match(imports, specifier, conditions) if isinstance(imports, dict) else None
            if not isinstance(target, str):
                continue
            found = True
            if target.startswith("./"):
                path = posixpath.normpath(posixpath.join(folder, target))
                yield self._inside(path, specifier, importer)
            else:
                yield from self._package(target, importer)
        if not found:
            raise EngineUnsupported(
                f"{specifier!r} is not in the package's imports", where=importer
            )

    def _scope(self, path: str) -> tuple[str, dict[str, Any] | None]:
        for folder in _ancestors(posixpath.dirname(path)):
            if posixpath.basename(folder) == "node_modules":
                break
            manifest = self._manifest(folder)
            if manifest is not None:
                return folder, manifest
        return "", None

    def _manifest(self, folder: str) -> dict[str, Any] | None:
        if folder not in self._packages:
            data = self._read(posixpath.normpath(posixpath.join(folder, "package.json")))
            try:
                value = json.loads(data) if data is not None else None
            except (ValueError, RecursionError):
                raise EngineUnsupported(
                    "package.json is not valid JSON", where=folder or None
                ) from None
            self._packages[folder] = value if isinstance(value, dict) else None
        return self._packages[folder]


def _ancestors(folder: str) -> Iterator[str]:
    while True:
        yield folder
        if not folder:
            return
        folder = posixpath.dirname(folder)


def _path_of(specifier: str) -> str:
    if "?" in specifier or "#" in specifier:
        raise EngineUnsupported(f"cannot import {specifier!r}: it has a query or fragment")
    return unquote(specifier)


def _match(table: dict[str, Any], subpath: str, conditions: frozenset[str]) -> str | None:
    """Find ``subpath`` in an ``exports`` or ``imports`` table and apply the conditions."""
    if subpath in table and "*" not in subpath:
        return _target(table[subpath], conditions, None)
    best: tuple[int, int, str] | None = None
    for key in table:
        before, star, after = key.partition("*")
        fits = star and subpath.startswith(before) and subpath.endswith(after)
        if fits and len(subpath) > len(before) + len(after) - 1:
            rank = (len(before), len(key), key)
            best = rank if best is None else max(best, rank)
    if best is None:
        return None
    before, _, after = best[2].partition("*")
    return _target(table[best[2]], conditions, subpath[len(before) : len(subpath) - len(after)])


def _target(value: Any, conditions: frozenset[str], star: str | None) -> str | None:
    if isinstance(value, str):
        return value if star is None else value.replace("*", star)
    if isinstance(value, list):
        options = (_target(item, conditions, star) for item in value)
        return next((found for found in options if found is not None), None)
    if isinstance(value, dict):
        for condition, item in value.items():
            if condition in conditions:
                found = _target(item, conditions, star)
                if found is not None:
                    return found
    return None
