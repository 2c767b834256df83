"""A registry with one prompt that pins two tools, and an empty project."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from raw_exec.contracts.client.embedded import EmbeddedRegistry
from raw_exec.contracts.project import Entry, Project, load_project, read_entry
from raw_exec.contracts.store import Store

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"url": {"type": "string", "minLength": 1}},
    "required": ["url"],
}
BRIEF = "@acme/daily-brief"


class Shop:
    """The registry, a project, and how often the registry was opened."""

    def __init__(self, store: Store, root: Path) -> None:
        self.registry = EmbeddedRegistry(store, "registry.db")
        self.root = root
        self.opened = 0
        r = self.registry
        for name in ("fetch-page", "search"):
            r.create_tool("acme", name)
            r.update_tool_version(
                "acme", name, "draft", input_schema=SCHEMA, model_description=f"Use {name}."
            )
            r.publish_tool_version("acme", name, "1.0.0")
        r.create_prompt("acme", "daily-brief")
        self.pin("fetch-page", "^1")
        self.pin("search", "^1", alias="web_search")
        r.publish_prompt_version("acme", "daily-brief", "1.0.0")

    def pin(self, tool: str, constraint: str, *, alias: str | None = None) -> None:
        self.registry.link_tool(
            "acme",
            "daily-brief",
            "draft",
            tool_workspace="acme",
            tool_name=tool,
            constraint=constraint,
            alias=alias,
        )

    def publish_next(self, number: str, readme: str = "") -> None:
        """Publish another version of the prompt."""
        self.registry.create_prompt_draft("acme", "daily-brief")
        self.registry.update_prompt_file(
            "acme", "daily-brief", "draft", "userPrompt", content=f"Hello {number}"
        )
        self.registry.publish_prompt_version("acme", "daily-brief", number)

    def ask(self) -> EmbeddedRegistry:
        self.opened += 1
        return self.registry

    def ask_nobody(self) -> EmbeddedRegistry:
        pytest.fail("the registry was asked")

    def entry(self, constraint: str = "^1.0.0", key: str = BRIEF) -> Entry:
        return read_entry(key, f"{BRIEF}@{constraint}")

    @property
    def project(self) -> Project:
        """The project as its file says now."""
        return load_project(self.root, may_be_missing=True)

    @property
    def files(self) -> dict[str, bytes]:
        """Every file of the project."""
        return {
            str(path.relative_to(self.root)): path.read_bytes()
            for path in sorted(self.root.rglob("*"))
            if path.is_file()
        }


@pytest.fixture
def shop(store: Store, people: Any, tmp_path: Path) -> Shop:
    root = tmp_path / "project"
    root.mkdir()
    return Shop(store, root)
