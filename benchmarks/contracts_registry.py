"""A registry of ten thousand tools, and a server for it, to measure contracts on."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import insert
from sqlalchemy.orm import Session

from raw_exec.contracts import service
from raw_exec.contracts.model import Principal, Role, Status, Visibility
from raw_exec.contracts.store import Store, open_store
from raw_exec.contracts.store.rows import ToolRow, ToolVersionRow, WorkspaceRow

from .claims import BenchmarkFailed
from .host import clean_environment
from .start_up import raw_command

__all__ = [
    "PINS_PER_PROMPT",
    "PROMPTS",
    "VERSIONS",
    "WORKSPACE",
    "BuiltRegistry",
    "build_registry",
    "running_server",
    "tool_name",
]

WORKSPACE = "acme"
VERSIONS = ("1.0.0", "1.1.0", "1.1.1", "1.2.0", "2.0.0")
PROMPTS = 10
PINS_PER_PROMPT = 5
_EMAIL = "owner@example.com"
_OPERATOR = Principal.operator()
_BATCH = 2_000


@dataclass(frozen=True, slots=True)
class BuiltRegistry:
    """A filled database and a key of a member.

    Args:
        path: The file.
        token: For requests to a server of it.
        tools: How many there are.
    """

    path: Path
    token: str
    tools: int


def tool_name(number: int) -> str:
    """Return the name of a tool."""
    return f"tool-{number:05}"


def _input_schema(number: int) -> dict[str, Any]:
    """Return arguments as real tools have them, no two tools the same."""
    return {
        "type": "object",
        "properties": {
            "query": {"type": "string", "minLength": 1, "description": f"What {number} looks for."},
            "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 10},
            "order": {"type": "string", "enum": ["date", "rank", "size"]},
            "where": {
                "anyOf": [
                    {"type": "string"},
                    {
                        "type": "object",
                        "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}},
                        "required": ["lat", "lon"],
                    },
                ]
            },
            f"only_{number}": {"type": "array", "items": {"type": "string"}, "maxItems": 20},
        },
        "required": ["query"],
        "additionalProperties": False,
    }


_OUTPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "rows": {"type": "array", "items": {"type": "string"}},
        "next": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["rows"],
}


def build_registry(folder: Path, tools: int) -> BuiltRegistry:
    """Fill a database: tools with five publications each, and prompts that pin fifty of them.

    Tools are written in bulk, in the form that the service gives them; prompts and pins go
    through the service.

    Raises:
        BenchmarkFailed: The service does not see what was written.
    """
    path = folder / "registry.db"
    with open_store(path) as store:
        token = store.write(_people)
        store.write(lambda session: _fill(session, tools))
        for number in range(PROMPTS):
            store.write(lambda session, number=number: _add_prompt(session, number, tools))
        _check(store, tools)
    return BuiltRegistry(path, token, tools)


def _people(session: Session) -> str:
    service.add_user(session, _OPERATOR, _EMAIL)
    service.add_workspace(session, _OPERATOR, WORKSPACE, owner=_EMAIL)
    service.set_member(session, _OPERATOR, WORKSPACE, _EMAIL, Role.OWNER)
    return service.create_key(session, _OPERATOR, email=_EMAIL).token


def _fill(session: Session, tools: int) -> None:
    workspace = session.query(WorkspaceRow).one().id
    at = datetime(2026, 1, 1, tzinfo=UTC)
    for first in range(0, tools, _BATCH):
        numbers = range(first, min(first + _BATCH, tools))
        entries = [
            {
                "id": f"tool_{number:024x}",
                "workspace_id": workspace,
                "name": tool_name(number),
                "description": f"Looks number {number} up",
                "visibility": Visibility.PRIVATE.value,
                "tags": ["search"],
                "created_at": at + timedelta(seconds=number),
                "updated_at": at + timedelta(seconds=number),
            }
            for number in numbers
        ]
        session.execute(insert(ToolRow), entries)
        places = range(len(VERSIONS))
        versions = [_version_row(number, index, at) for number in numbers for index in places]
        session.execute(insert(ToolVersionRow), versions)


def _version_row(number: int, index: int, at: datetime) -> dict[str, Any]:
    major, minor, patch = (int(part) for part in VERSIONS[index].split("."))
    return {
        "id": f"tv_{number:020x}{index:04x}",
        "tool_id": f"tool_{number:024x}",
        "version": VERSIONS[index],
        "major": major,
        "minor": minor,
        "patch": patch,
        "status": Status.PUBLISHED.value,
        "readme": f"# Tool {number}\n",
        "output_schema": _OUTPUT_SCHEMA,
        "revision": 2,
        "created_at": at,
        "updated_at": at,
        "published_at": at,
        "model_description": f"Looks number {number} up, and returns what it found.",
        "input_schema": _input_schema(number),
        "metadata_": {"owner": "search", "tier": index},
    }


def _add_prompt(session: Session, number: int, tools: int) -> None:
    name = f"prompt-{number}"
    service.create_prompt(session, _OPERATOR, WORKSPACE, name)
    for index in range(PINS_PER_PROMPT):
        place = number * PINS_PER_PROMPT + index
        service.link_tool(
            session,
            _OPERATOR,
            WORKSPACE,
            name,
            "draft",
            tool_workspace=WORKSPACE,
            tool_name=tool_name(place * tools // (PROMPTS * PINS_PER_PROMPT)),
            constraint="^1.0.0",
        )
    service.publish_prompt_version(session, _OPERATOR, WORKSPACE, name, "1.0.0")


def _check(store: Store, tools: int) -> None:
    last = tool_name(tools - 1)
    seen = store.read(
        lambda s: (
            service.list_tools(s, _OPERATOR, WORKSPACE, take=1).total,
            service.list_tool_versions(s, _OPERATOR, WORKSPACE, last, take=1).total,
            service.get_tool_version(s, _OPERATOR, WORKSPACE, last, "^1.0.0").version,
            len(service.get_prompt_version(s, _OPERATOR, WORKSPACE, "prompt-0", "*").pins),
        )
    )
    if seen != (tools, len(VERSIONS), "1.2.0", PINS_PER_PROMPT):
        raise BenchmarkFailed(f"the registry was not filled: {seen}")


@contextmanager
def running_server(path: Path) -> Iterator[str]:
    """Serve a database by the command itself, and yield the URL."""
    argv = [*raw_command(), "registry", "serve", "--db", str(path), "--port", "0"]
    process = subprocess.Popen(
        [*argv, "--json", "--rate", "100000"],
        env={**clean_environment(), "PYTHONPATH": str(Path(__file__).parent.parent)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise BenchmarkFailed(f"the server ended with {process.wait(30)}")
        yield str(json.loads(line)["url"])
    finally:
        process.terminate()
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()
