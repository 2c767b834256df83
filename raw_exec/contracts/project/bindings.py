"""Generate a project's bindings from its lock and cache; nobody is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import ConfigError
from ..codegen import Language, Lock, Prompt, generate
from ..errors import Conflict
from .file import Output, Project
from .files import read_project_file, write_project_file
from .lock import load_cached, load_lock

__all__ = ["Generated", "generate_bindings", "resolved_lock"]


@dataclass(frozen=True, slots=True)
class Generated:
    """One file of bindings.

    Args:
        changed: Whether the file was not what it is now; with ``check``, not what it should be.
    """

    path: Path
    language: Language
    changed: bool


def resolved_lock(project: Project) -> Lock:
    """Return what is installed, with every digest checked.

    Raises:
        Conflict: ``lock_outdated`` or ``cache_missing``.
    """
    lock = load_lock(project.root)
    prompts: list[Prompt] = []
    for key, entry in sorted(project.entries.items()):
        locked = lock.get(key)
        if locked is None or not locked.fits(entry):
            raise Conflict(
                "lock_outdated",
                f"the lock does not have {key} with {entry.constraint}",
                hint="run `raw install`",
            )
        content = load_cached(project.root, locked)
        if content is None:
            raise Conflict(
                "cache_missing",
                f"{locked.ref}@{locked.version} is not in the cache, or was changed there",
                hint="run `raw install`",
            )
        prompts.append(Prompt(key, content.version, content.tools(), content.is_draft))
    return Lock(tuple(prompts))


def generate_bindings(
    project: Project, outputs: Sequence[Output] = (), *, check: bool = False
) -> tuple[Generated, ...]:
    """Write the bindings; a file that is as it should be is not touched.

    Args:
        outputs: Instead of the project's own.
        check: Only look.

    Raises:
        ConfigError: ``no_outputs`` or ``path_outside``.
        GenerationError: The contracts do not fit into one file; nothing was written.
    """
    chosen = tuple(outputs) or project.outputs
    if not chosen:
        raise ConfigError(
            "no_outputs",
            "the project does not say what to generate",
            where=str(project.path),
            hint="name a file with --output generated/prompts.py (or .ts)",
        )
    lock = resolved_lock(project)
    paths = [project.output_path(one) for one in chosen]
    texts = [generate(lock, one.language) for one in chosen]
    done: list[Generated] = []
    for output, path, text in zip(chosen, paths, texts, strict=True):
        changed = read_project_file(path) != text.encode()
        if changed and not check:
            write_project_file(path, text)
        done.append(Generated(path, output.language, changed))
    return tuple(done)
