"""The tools as a client is told of them, worked out once for each era. Pure.

A tool that an era can't be told of is withheld there, and nobody else suffers: many clients
refuse a whole list for one definition that they can't read.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from ...profiles import ProjectedTool, ProjectedTools
from ...schema.dialect import DRAFT_2020_12
from .eras import INVALID_PARAMS, Era, RpcError
from .headers import header_problem, mirrored_properties

__all__ = ["PAGE_TOOLS", "Catalog", "EraTools", "ListedTool", "Withheld"]

PAGE_TOOLS: Final = 500
"""Tools in one answer. Generous, since not every client asks for a second page."""
_MAX_CURSOR_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class ListedTool:
    """One tool in the list.

    Args:
        projected: Its names, and the way back for arguments.
        definition: What is sent.
        mirrored: Arguments that HTTP headers repeat: by path, header and type.
    """

    projected: ProjectedTool
    definition: dict[str, Any]
    mirrored: dict[tuple[str, ...], tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Withheld:
    """A tool that is not in the list, and why."""

    name: str
    reason: str

    def as_dict(self) -> dict[str, str]:
        """Return it as ``_meta["raw/withheld"]`` lists it."""
        return {"name": self.name, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class EraTools:
    """What the clients of one era are told."""

    tools: tuple[ListedTool, ...]
    withheld: tuple[Withheld, ...]
    by_name: dict[str, ListedTool]


class Catalog:
    """The tools of one runtime.

    Args:
        projected: Of the profile ``mcp``.
        key: Changes whenever the tools do; a cursor of another one is refused.
        dialects: Names of tools whose schema says what dialect it is in; what is sent says so
            then too.
        page_tools: Tools in one answer.
    """

    def __init__(
        self,
        projected: ProjectedTools,
        key: str,
        *,
        dialects: Collection[str] = (),
        page_tools: int = PAGE_TOOLS,
    ) -> None:
        self._projected = projected
        self._dialects = dialects
        self._key = key.rpartition(":")[2][:16]
        self._page_tools = page_tools

    @cached_property
    def _handshake(self) -> EraTools:
        return self._told(Era.HANDSHAKE)

    @cached_property
    def _stateless(self) -> EraTools:
        return self._told(Era.STATELESS)

    def of(self, era: Era) -> EraTools:
        """Return what the clients of an era are told."""
        return self._stateless if era is Era.STATELESS else self._handshake

    def _told(self, era: Era) -> EraTools:
        listed: list[ListedTool] = []
        withheld = [
            Withheld(tool.tool_name, "; ".join(map(str, tool.problems)))
            for tool in self._projected.withheld
        ]
        for tool in self._projected.tools:
            schema = _plain_properties(tool.definition["inputSchema"])
            problem = header_problem(schema) if era is Era.STATELESS else None
            if problem is not None:
                withheld.append(Withheld(tool.tool_name, problem))
                continue
            mirrored = mirrored_properties(schema) if era is Era.STATELESS else {}
            if tool.tool_name in self._dialects:
                schema = {"$schema": DRAFT_2020_12.uri, **schema}
            definition = {**tool.definition, "inputSchema": schema}
            listed.append(ListedTool(tool, definition, mirrored))
        return EraTools(
            tuple(listed), tuple(withheld), {tool.projected.name: tool for tool in listed}
        )

    def find(self, era: Era, name: str) -> ListedTool | None:
        """Return a tool that the clients of an era were told of."""
        return self.of(era).by_name.get(name)

    def page(self, era: Era, cursor: Any) -> dict[str, Any]:
        """Return one page of the list.

        Args:
            cursor: From the page before; ``None`` for the first.

        Raises:
            RpcError: The cursor is none, or the tools have changed since.
        """
        told = self.of(era)
        start = 0 if cursor is None else self._read_cursor(cursor, len(told.tools))
        end = start + self._page_tools
        out: dict[str, Any] = {"tools": [tool.definition for tool in told.tools[start:end]]}
        if end < len(told.tools):
            out["nextCursor"] = self._cursor(end)
        if told.withheld:
            out["_meta"] = {"raw/withheld": [tool.as_dict() for tool in told.withheld]}
        return out

    def _cursor(self, start: int) -> str:
        return base64.urlsafe_b64encode(f"{self._key}:{start}".encode()).decode("ascii")

    def _read_cursor(self, cursor: Any, count: int) -> int:
        if isinstance(cursor, str) and len(cursor) <= _MAX_CURSOR_CHARS:
            try:
                key, _, start = base64.b64decode(cursor, b"-_", validate=True).partition(b":")
                if key == self._key.encode() and start.isdigit() and int(start) < count:
                    return int(start)
            except (binascii.Error, ValueError):
                pass
        raise RpcError(
            INVALID_PARAMS, "this cursor is of no list that is served now; begin without one"
        )

    def differs_from(self, other: Catalog) -> bool:
        """Say whether any client would be told something else."""
        return any(
            [tool.definition for tool in self.of(era).tools]
            != [tool.definition for tool in other.of(era).tools]
            for era in Era
        )

    def warnings(self) -> Iterable[str]:
        """Yield what an operator should know: every tool that some client is not told of."""
        everywhere = self.of(Era.HANDSHAKE).withheld
        for tool in everywhere:
            yield f"{tool.name} is withheld from clients: {tool.reason}"
        for tool in self.of(Era.STATELESS).withheld:
            if tool not in everywhere:
                yield f"{tool.name} is withheld from clients since 2026-07-28: {tool.reason}"


def _plain_properties(schema: dict[str, Any]) -> dict[str, Any]:
    """Write ``true`` and ``false`` for a property as objects, since clients take no others."""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not any(
        isinstance(value, bool) for value in properties.values()
    ):
        return schema
    plain = {
        name: ({} if value else {"not": {}}) if isinstance(value, bool) else value
        for name, value in properties.items()
    }
    return {**schema, "properties": plain}
