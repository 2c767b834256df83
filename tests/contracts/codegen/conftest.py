"""Compilers and checkers for generated bindings, from the lock file beside this."""

from __future__ import annotations

import importlib.util
import itertools
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from foreign import npm_packages
from raw_exec.contracts.codegen import Lock, generate
from requires import require, require_node

_numbers = itertools.count()


@pytest.fixture(scope="session")
def bindings_npm() -> Path:
    """Return the folder with zod, TypeScript and pyright of the lock file."""
    folder = npm_packages(Path(__file__).parent / "npm")
    for word in ("pyright", "tsc"):
        there = (folder / "node_modules" / ".bin" / word).exists()
        require(word, there, f"{word} is not installed in {folder.name}")
    return folder


class TypeScript:
    """A folder in which TypeScript is compiled and run."""

    def __init__(self, folder: Path, npm: Path) -> None:
        self.folder = folder
        self._bin = npm / "node_modules" / ".bin"
        (folder / "node_modules").symlink_to(npm / "node_modules", target_is_directory=True)
        (folder / "package.json").write_text('{"type": "module"}')
        config = {
            "compilerOptions": {
                "strict": True,
                "noUncheckedIndexedAccess": True,
                "exactOptionalPropertyTypes": True,
                "noImplicitReturns": True,
                "noPropertyAccessFromIndexSignature": True,
                "target": "es2022",
                "lib": ["es2022", "dom"],
                "module": "nodenext",
                "outDir": "out",
                "types": [],
            },
            "include": ["*.ts"],
        }
        (folder / "tsconfig.json").write_text(json.dumps(config))

    def compile(self) -> list[str]:
        """Return the errors of the compiler; without any, the output is in ``out``."""
        done = subprocess.run(
            [str(self._bin / "tsc"), "--project", "tsconfig.json", "--pretty", "false"],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=110,
        )
        return done.stdout.splitlines()

    def run(self, script: str, *args: str, stdin: str = "") -> str:
        """Run an ES module beside the output and return what it prints."""
        (self.folder / "out").mkdir(exist_ok=True)
        path = self.folder / "out" / f"script{next(_numbers)}.mjs"
        path.write_text(script)
        done = subprocess.run(
            [require_node(), str(path), *args],
            cwd=self.folder,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=110,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout


@pytest.fixture
def typescript(tmp_path: Path, bindings_npm: Path) -> TypeScript:
    """Return a folder in which TypeScript can be compiled and run."""
    folder = tmp_path / "ts"
    folder.mkdir()
    return TypeScript(folder, bindings_npm)


def load_python(lock: Lock, folder: Path) -> ModuleType:
    """Generate Python bindings and import them."""
    name = f"generated{next(_numbers)}"
    path = folder / f"{name}.py"
    path.write_text(generate(lock, "python"), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def bad_lines(text: str) -> set[int]:
    """Return the numbers of the lines that end with the comment "bad"."""
    return {n for n, line in enumerate(text.splitlines(), 1) if re.search(r"(#|//) bad$", line)}


def run_mypy(path: Path, *others: str) -> list[str]:
    """Return what mypy says of a file, and of others beside it, strictly."""
    require("mypy", importlib.util.find_spec("mypy") is not None, "mypy is not installed")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-error-summary"),
            *("--warn-unused-ignores", "--hide-error-context", "--cache-dir", "/dev/null"),
            *(path.name, *others),
        ],
        cwd=path.parent,
        capture_output=True,
        text=True,
        timeout=110,
    )
    return (done.stdout + done.stderr).splitlines()


def run_pyright(path: Path, npm: Path, *others: str) -> list[dict[str, Any]]:
    """Return pyright's diagnostics of a file, and of others beside or below it."""
    done = subprocess.run(
        [
            *(str(npm / "node_modules" / ".bin" / "pyright"), "--outputjson"),
            *("--pythonpath", sys.executable, path.name, *others),
        ],
        cwd=path.parent,
        capture_output=True,
        text=True,
        timeout=110,
    )
    found: list[dict[str, Any]] = json.loads(done.stdout)["generalDiagnostics"]
    return found
