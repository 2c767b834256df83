"""What program a stdio server is, and which files it consists of. Nothing is run.

A server is more than its executable: a package with what it depends on. Its files are where its
script lies: the outermost ``node_modules`` around it, else the nearest folder with a package
file, else its own folder. A folder that holds more than a program (a home, ``/tmp``, a system
folder) is never taken as a whole; then the script alone is.

Not covered: what a server reads beside its package. The operator grants that by a profile.
"""

from __future__ import annotations

import dataclasses
import os
import re
from pathlib import Path
from typing import Final

from ..config import Config, McpServer
from ..pool.oneshot import Program, ProgramUnavailable, find_program
from ..sandbox import SandboxPlan, explain_path
from ..tools.plan import server_cwd

__all__ = ["find_server_program", "start_directory"]

_INTERPRETER = re.compile(r"node|python[0-9.]*")
_PACKAGE_FILES: Final = ("package.json", "pyproject.toml", "setup.py")
_MAX_LEVELS = 4
_BROAD: Final = frozenset(
    f"/{name}"
    for name in (
        *("", "bin", "boot", "dev", "etc", "home", "lib", "lib64", "media", "mnt", "opt", "proc"),
        *("root", "run", "sbin", "srv", "sys", "tmp", "usr", "usr/bin", "usr/lib", "usr/local"),
        *("usr/local/bin", "usr/local/lib", "usr/sbin", "usr/share", "var", "var/lib", "var/tmp"),
    )
)
_DOWNLOADERS: Final = ("npx", "uvx", "uv", "pipx", "bunx", "pnpm", "yarn", "docker")


def start_directory(config: Config, server: McpServer, plan: SandboxPlan, cwd: str) -> str:
    """Return where a server's process starts.

    Its ``cwd``; else the working directory of the runtime, where its plan grants that; else
    the root, since somewhere it must be.
    """
    named = server_cwd(config, server)
    if named is not None:
        return named
    return cwd if explain_path(plan, cwd).read else "/"


def find_server_program(config: Config, server: McpServer, directory: str) -> Program:
    """Find a server's program, with the files that it consists of among those it may read.

    Blocks: run it in a thread.

    Args:
        config: Its folder is what a relative command is relative to.
        server: A stdio server.
        directory: Where it starts: a script among its arguments is relative to that.

    Raises:
        ProgramUnavailable: There is none, or it can't be executed.
    """
    command = server.command or ""
    try:
        program = find_program(command, server.args, directory=config.directory)
    except ProgramUnavailable as exc:
        raise ProgramUnavailable(exc.code, exc.message, hint=_hint(command) or exc.hint) from None
    read = [*program.files.read]
    for script in _scripts(program, directory):
        read += [str(script), *_folders_of(script)]
    files = dataclasses.replace(program.files, read=tuple(dict.fromkeys(read)))
    return dataclasses.replace(program, files=files)


def downloader_hint(server: McpServer) -> str | None:
    """Return advice about a command that fetches the server when it starts, for one that is."""
    return _hint(server.command or "")


def _hint(command: str) -> str | None:
    name = os.path.basename(command)
    if name not in _DOWNLOADERS:
        return None
    return f"{name} fetches code when it starts; install the server and name its own program"


def _scripts(program: Program, directory: str) -> list[Path]:
    """Return the program itself, and the script that an interpreter is given."""
    found = [Path(program.argv[0])]
    at = 1 if _INTERPRETER.fullmatch(os.path.basename(os.path.realpath(program.argv[0]))) else None
    while at is not None and at < len(program.argv):
        word = program.argv[at]
        if word in ("-m", "-c", "-e", "--eval", "-p", "--print"):
            break  # no script: a module, or code
        if not word.startswith("-"):
            path = Path(os.path.abspath(os.path.join(directory, word)))
            if path.is_file():
                found.append(path)
            break
        at += 1
    return found


def _folders_of(script: Path) -> list[str]:
    """Return the real script, and the folder of its package, when there is one to grant."""
    real = script.resolve()
    parts = real.parts
    if "node_modules" in parts:
        return [str(real), str(Path(*parts[: parts.index("node_modules") + 1]))]
    folder = real.parent
    for level in (folder, *folder.parents)[:_MAX_LEVELS]:
        if _is_broad(level):
            break
        if any((level / name).is_file() for name in _PACKAGE_FILES):
            return [str(real), str(level)]
    return [str(real)] if _is_broad(folder) else [str(real), str(folder)]


def _is_broad(folder: Path) -> bool:
    home = Path(os.path.expanduser("~")).resolve()
    return str(folder) in _BROAD or folder == home or folder in home.parents
