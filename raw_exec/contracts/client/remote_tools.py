"""The operations on tools and their versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import version_unknown
from ..model import UNSET, Page, Status, Tool, ToolVersion, Unset
from .decode import TOOL, TOOL_VERSION, decoding, field, read_page, read_tool, read_tool_version
from .requests import Requests, given, word

__all__ = ["RemoteTools"]

_Json = Mapping[str, Any]


class RemoteTools(Requests):
    """The half of ``RemoteRegistry`` that is about tools."""

    def create_tool(self, workspace: str, name: str, *, description: str | None = None) -> Tool:
        value = self._mutate(workspace, "createTool", TOOL, name=name, description=description)
        return decoding(read_tool, value)

    def get_tool(self, workspace: str, name: str) -> Tool:
        text = f"query ($toolName: ID!) {{ tool(toolName: $toolName) {{ {TOOL} }} }}"
        return decoding(read_tool, self._request(workspace, text, "tool", {"toolName": name}))

    def list_tools(
        self, workspace: str, *, skip: int = 0, take: int = 50, search: str | None = None
    ) -> Page[Tool]:
        return self._list(workspace, "tools", TOOL, read_tool, skip, take, search)

    def update_tool(
        self,
        workspace: str,
        name: str,
        *,
        description: str | Unset | None = UNSET,
        tags: tuple[str, ...] | Unset = UNSET,
    ) -> Tool:
        args = given(description=description, tags=tags)
        value = self._mutate(
            workspace, "updateTool", TOOL, {"args": "UpdateToolArgs!"}, toolName=name, args=args
        )
        return decoding(read_tool, value)

    def dependent_count(self, workspace: str, name: str) -> int:
        text = "query ($toolName: ID!) { tool(toolName: $toolName) { dependentCount } }"
        value = self._request(workspace, text, "tool", {"toolName": name})
        return decoding(lambda one: field(one, "dependentCount", int), value)

    def find_tool_version(
        self,
        workspace: str,
        name: str,
        constraint: str | None = None,
        *,
        status: Status | None = None,
    ) -> ToolVersion | None:
        text = (
            "query ($toolName: ID!, $constraint: String, $status: ToolVersionStatus) { "
            "toolVersion(toolName: $toolName, constraint: $constraint, status: $status) "
            f"{{ {TOOL_VERSION} }} }}"
        )
        variables = {"toolName": name, "constraint": constraint, "status": word(status)}
        found = self._request(workspace, text, "toolVersion", variables)
        return None if found is None else decoding(read_tool_version, found)

    def get_tool_version(
        self,
        workspace: str,
        name: str,
        constraint: str | None = None,
        *,
        status: Status | None = None,
    ) -> ToolVersion:
        found = self.find_tool_version(workspace, name, constraint, status=status)
        if found is None:
            raise version_unknown(f"@{workspace}/{name}", constraint)
        return found

    def list_tool_versions(
        self,
        workspace: str,
        name: str,
        *,
        skip: int = 0,
        take: int = 50,
        status: Status | None = None,
    ) -> Page[ToolVersion]:
        text = (
            "query ($toolName: ID!, $pagination: PaginationArgs!, $status: ToolVersionStatus) { "
            "tool(toolName: $toolName) { versions(pagination: $pagination, status: $status) "
            f"{{ data {{ {TOOL_VERSION} }} total }} }} }}"
        )
        page = {"skip": skip, "take": take}
        variables = {"toolName": name, "pagination": page, "status": word(status)}
        value = self._request(workspace, text, "tool", variables)
        return decoding(lambda one: read_page(one["versions"], read_tool_version), value)

    def create_tool_draft(self, workspace: str, name: str) -> ToolVersion:
        value = self._mutate(workspace, "createToolVersionDraft", TOOL_VERSION, toolName=name)
        return decoding(read_tool_version, value)

    def update_tool_version(
        self,
        workspace: str,
        name: str,
        version: str,
        *,
        model_description: str | Unset = UNSET,
        input_schema: _Json | Unset = UNSET,
        output_schema: _Json | Unset | None = UNSET,
        metadata: _Json | Unset = UNSET,
        readme: str | Unset = UNSET,
        expected_revision: int | None = None,
    ) -> ToolVersion:
        changes = given(
            modelDescription=model_description,
            inputSchema=input_schema,
            outputSchema=output_schema,
            metadata=metadata,
            readme=readme,
        )
        value = self._mutate(
            workspace,
            "updateToolVersion",
            TOOL_VERSION,
            toolName=name,
            version=version,
            input=changes,
            expectedRevision=expected_revision,
        )
        return decoding(read_tool_version, value)

    def patch_tool_metadata(
        self,
        workspace: str,
        name: str,
        version: str,
        *,
        set: _Json,  # noqa: A002 - the service's word
        delete: Iterable[str] = (),
        expected_revision: int | None = None,
    ) -> ToolVersion:
        value = self._mutate(
            workspace,
            "patchToolVersionMetadata",
            TOOL_VERSION,
            toolName=name,
            version=version,
            set=dict(set),
            delete=list(delete),
            expectedRevision=expected_revision,
        )
        return decoding(read_tool_version, value)

    def publish_tool_version(self, workspace: str, name: str, number: str) -> ToolVersion:
        value = self._mutate(
            workspace,
            "publishToolVersion",
            TOOL_VERSION,
            {"version": "String!"},
            toolName=name,
            version=number,
        )
        return decoding(read_tool_version, value)

    def delete_tool_version(self, workspace: str, name: str, version: str) -> bool:
        return bool(self._mutate(workspace, "deleteToolVersion", toolName=name, version=version))
