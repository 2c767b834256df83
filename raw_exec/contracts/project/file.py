"""``raw-contracts.json``: which prompts a project uses, and what is generated from them.

``{"registry": …, "prompts": {"@acme/daily-brief": "^1.0.0"}, "outputs": [{"language":
"python", "file": "generated/prompts.py"}]}``. A prompt may stand under another name:
``"@acme/old": "@acme/daily-brief@1.0.0"``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ...errors import ConfigError, first_problem
from ...fields import Cursor, Document
from ...jsontext import JsonTextError, parse
from ..codegen import BINDING_LANGUAGES, Language
from ..errors import Invalid
from ..names import Ref, parse_ref
from ..versions import check_constraint
from .files import inside, read_project_file, write_project_file

__all__ = [
    "PROJECT_NAME",
    "Entry",
    "Output",
    "Project",
    "language_of",
    "load_project",
    "read_entry",
]

PROJECT_NAME: Final = "raw-contracts.json"
_MAX_BYTES: Final = 1024 * 1024
_LANGUAGES: Final[dict[str, Language]] = {".py": "python", ".ts": "typescript"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One prompt of the project.

    Args:
        key: What the project calls it, and code passes to ``get_prompt``.
        ref: The prompt in the registry.
        constraint: Which versions will do.
    """

    key: str
    ref: Ref
    constraint: str

    @property
    def written(self) -> str:
        """The value in the file."""
        if self.key == str(self.ref):
            return self.constraint
        return f"{self.ref}@{self.constraint}"


@dataclass(frozen=True, slots=True)
class Output:
    """One file of bindings, relative to the project."""

    language: Language
    file: str


@dataclass(slots=True)
class Project:
    """A project's file.

    Args:
        root: The folder that it is in; it need not exist as a file yet.
        registry: A server's URL, or a database file relative to ``root``.
    """

    root: Path
    registry: str | None
    entries: dict[str, Entry]
    outputs: tuple[Output, ...]

    @property
    def path(self) -> Path:
        """The file itself."""
        return self.root / PROJECT_NAME

    def save(self) -> None:
        """Write the file.

        Raises:
            ConfigError: ``project_unwritable``.
        """
        value: dict[str, Any] = {} if self.registry is None else {"registry": self.registry}
        value["prompts"] = {key: self.entries[key].written for key in sorted(self.entries)}
        value["outputs"] = [{"language": one.language, "file": one.file} for one in self.outputs]
        write_project_file(self.path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")

    def output_path(self, output: Output) -> Path:
        """Return where an output is written.

        Raises:
            ConfigError: ``path_outside``.
        """
        return inside(self.root, output.file)


def language_of(file: str) -> Language:
    """Return the language of an output by its ending.

    Raises:
        ConfigError: ``output_language``.
    """
    language = _LANGUAGES.get(Path(file).suffix)
    if language is None:
        raise ConfigError(
            "output_language",
            f"output {file!r} is neither Python nor TypeScript",
            hint="name a file that ends in .py or .ts",
        )
    return language


def load_project(root: Path, *, may_be_missing: bool = False) -> Project:
    """Read and check a project's file.

    Raises:
        ConfigError: ``project_missing``, ``project_unreadable`` or ``project_invalid`` with
            every problem.
    """
    path = root / PROJECT_NAME
    data = read_project_file(path)
    if data is None:
        if may_be_missing:
            return Project(root, None, {}, ())
        raise ConfigError(
            "project_missing",
            f"there is no {PROJECT_NAME}",
            where=str(root),
            hint="add a prompt with `raw add @workspace/name`, or name the folder with --project",
        )
    where = str(path)
    try:
        value = parse(data, max_bytes=_MAX_BYTES, where=where)
    except JsonTextError as exc:
        raise ConfigError(
            "project_invalid", exc.message, where=where, hint=exc.hint, problems=exc.problems
        ) from exc
    document = Document(data.decode())
    fields = document.root(value).fields(("registry", "prompts", "outputs"), ("prompts",)) or {}
    registry = _registry(fields["registry"]) if "registry" in fields else None
    entries = _entries(fields["prompts"]) if "prompts" in fields else {}
    outputs = _outputs(fields["outputs"], root) if "outputs" in fields else ()
    if not document.ok:
        problems = document.problems()
        raise ConfigError(
            "project_invalid", first_problem(problems), where=where, problems=problems
        )
    return Project(root, registry, entries, outputs)


def _registry(cursor: Cursor) -> str | None:
    text = cursor.string(min_chars=1, max_chars=2048, one_line=True)
    if text is not None and "://" in text and not text.startswith(("http://", "https://")):
        cursor.fail("must be an http(s) URL or the path of a database file")
        return None
    return text


def _entries(cursor: Cursor) -> dict[str, Entry]:
    out: dict[str, Entry] = {}
    if not isinstance(cursor.value, dict):
        cursor.wrong_type("an object")
        return out
    for key in cursor.value:
        one = cursor.child(key)
        text = one.string(min_chars=1, max_chars=1024, one_line=True)
        if text is None:
            continue
        try:
            out[key] = read_entry(key, text)
        except Invalid as exc:
            one.fail(exc.message)
    return out


def read_entry(key: str, text: str) -> Entry:
    """Return an entry from its name and value.

    Raises:
        Invalid: ``bad_ref``, ``bad_constraint`` or the code of a name.
    """
    ref = parse_ref(key, kind="prompt", version="forbidden")
    constraint = text
    if text.startswith("@"):
        target = parse_ref(text, kind="prompt", version="required")
        ref, constraint = Ref(target.workspace, target.name), str(target.version)
    return Entry(key, ref, check_constraint(constraint))


def _outputs(cursor: Cursor, root: Path) -> tuple[Output, ...]:
    out: list[Output] = []
    for item in cursor.items(max_items=16):
        fields = item.fields(("language", "file"), ("language", "file")) or {}
        if len(fields) != 2:
            continue
        language = fields["language"].value
        file = fields["file"].string(min_chars=1, max_chars=1024, one_line=True)
        if language not in BINDING_LANGUAGES:
            fields["language"].fail(f"must be one of {', '.join(BINDING_LANGUAGES)}")
        elif file is not None:
            try:
                inside(root, file)
            except ConfigError as exc:
                fields["file"].fail(exc.message)
            else:
                out.append(Output(language, file))
    return tuple(out)
