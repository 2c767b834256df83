"""The package's shape: who may import whom, and how big a file may get."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "raw_exec"

LAYERS = {
    "errors": 0,
    "values": 0,
    "limits": 0,
    "text": 0,
    "jsontext": 0,
    "fields": 0,
    "private_root": 0,
    "_resources": 0,
    "wire": 1,
    "schema": 1,
    "policy": 1,
    "config": 2,
    "manifest": 2,
    "tools": 3,
    "effects": 3,
    "sandbox": 3,
    "pool": 4,
    "approval": 4,
    "transactions": 4,
    "variables": 4,
    "jobs": 4,
    "panels": 4,
    "profiles": 4,
    "hooks": 4,
    "mcp_client": 4,
    "history": 4,
    "interactions": 4,
    "dispatch": 5,
    "builtin": 5,
    "sessions": 6,
    "runtime": 6,
    "serving": 6,
    "verify": 7,
    "contracts": 7,
    "adapters": 7,
    "aio": 7,
    "blocking": 7,
    "cli": 8,
    "__init__": 9,
    "__main__": 9,
}
MAX_LINES = 500
TRIO_FROM_LAYER = 4


def _modules() -> list[Path]:
    return sorted(p for p in PACKAGE.rglob("*.py") if "_bundled" not in p.parts)


def _area(path: Path) -> str:
    relative = path.relative_to(PACKAGE)
    return relative.parts[0].removesuffix(".py")


def _low_modules() -> list[Path]:
    """Return the modules of the layers below the pool; one without a layer fails on its own."""
    return [p for p in _modules() if LAYERS.get(_area(p), TRIO_FROM_LAYER) < TRIO_FROM_LAYER]


def _imported_areas(path: Path) -> set[str]:
    """Return the areas of raw_exec that a module imports, however it spells them."""
    package = ["raw_exec", *path.relative_to(PACKAGE).parts[:-1]]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names = [f"{module}.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "raw_exec" and len(parts) > 1 and parts[1] in LAYERS:
                found.add(parts[1])
    return found


@pytest.mark.parametrize("path", _modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_layer_imports_only_lower_layers(path: Path) -> None:
    """design: data flows one way; an upward import is a mistake."""
    area = _area(path)
    assert area in LAYERS, f"give {area!r} a layer in this table"
    for other in _imported_areas(path) - {area}:
        assert LAYERS[other] <= LAYERS[area], f"{area} imports {other}, which is above it"


@pytest.mark.parametrize("path", _low_modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_layers_below_the_pool_are_free_of_trio(path: Path) -> None:
    """What needs no waiting is tested without an event loop."""
    tree = ast.parse(path.read_text())
    imported = {
        alias.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    assert not imported & {"trio", "asyncio"}


def test_workers_import_only_the_standard_library_and_msgpack() -> None:
    """A worker meets the supervisor only on the wire."""
    allowed = set(sys.stdlib_module_names) | {"msgpack", "__future__"}
    for folder in ("launcher", "python"):
        files = sorted((ROOT / "workers" / folder).glob("*.py"))
        local = {path.stem for path in files} | {"main"}
        for path in files:
            for node in ast.walk(ast.parse(path.read_text())):
                names: list[str] = []
                if isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    names = [node.module or ""]
                for name in names:
                    assert name.split(".")[0] in allowed | local, f"{path.name} imports {name}"


def test_files_stay_small_enough_to_read_at_one_sitting() -> None:
    """Around 300 lines is comfortable; over 500 something wants to be split."""
    files = [*_modules(), *(ROOT / "workers").rglob("*.py")]
    big = {
        str(p.relative_to(ROOT)): n
        for p in files
        if (n := len(p.read_text().splitlines())) > MAX_LINES
    }
    assert big == {}
