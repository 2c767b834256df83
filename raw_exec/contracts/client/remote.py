"""The registry behind a URL: the service's operations as GraphQL requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import version_unknown
from ..model import (
    UNSET,
    FileFormat,
    Page,
    Prompt,
    PromptFile,
    PromptKind,
    PromptVersion,
    Provider,
    Status,
    Unset,
)
from .decode import (
    PROMPT,
    PROMPT_FILE,
    PROMPT_VERSION,
    decoding,
    field,
    read_file,
    read_page,
    read_prompt,
    read_prompt_version,
)
from .remote_tools import RemoteTools
from .requests import given, word

__all__ = ["RemoteRegistry"]

_Json = Mapping[str, Any]


class RemoteRegistry(RemoteTools):
    """Every operation, asked of a server. Refusals are raised as the service raises them."""

    def me(self) -> dict[str, Any]:
        """Return whose key this is: ``id``, ``email`` and ``memberships``."""
        text = "{ me { id email memberships { role workspace { name displayName } } } }"
        value = self._request(None, text, "me", {})
        return decoding(
            lambda one: {
                "id": field(one, "id", str),
                "email": field(one, "email", str),
                "memberships": [
                    {
                        "workspace": field(each["workspace"], "name", str),
                        "role": field(each, "role", str),
                    }
                    for each in field(one, "memberships", list)
                ],
            },
            value,
        )

    def revoke_key(self, key_id: str) -> bool:
        """Revoke a key; ``False`` when it was revoked already."""
        return bool(self._mutate("", "revokeUserApiKey", "", {"id": "ID!"}, id=key_id))

    def _mutate_version(
        self,
        workspace: str,
        prompt_name: str,
        name: str,
        types: Mapping[str, str] | None = None,
        **variables: Any,
    ) -> PromptVersion:
        # The answer does not repeat the prompt; asked for first, a refusal changes nothing.
        prompt = self.get_prompt(workspace, prompt_name)
        value = self._mutate(
            workspace, name, PROMPT_VERSION, types, promptName=prompt_name, **variables
        )
        return decoding(lambda one: read_prompt_version(one, prompt), value)

    # -- prompts

    def create_prompt(
        self,
        workspace: str,
        name: str,
        *,
        description: str | None = None,
        kind: PromptKind = PromptKind.LLM,
    ) -> Prompt:
        value = self._mutate(
            workspace, "createPrompt", PROMPT, name=name, description=description, kind=kind.value
        )
        return decoding(read_prompt, value)

    def get_prompt(self, workspace: str, name: str) -> Prompt:
        text = f"query ($promptName: ID!) {{ prompt(promptName: $promptName) {{ {PROMPT} }} }}"
        value = self._request(workspace, text, "prompt", {"promptName": name})
        return decoding(read_prompt, value)

    def list_prompts(
        self, workspace: str, *, skip: int = 0, take: int = 50, search: str | None = None
    ) -> Page[Prompt]:
        return self._list(workspace, "prompts", PROMPT, read_prompt, skip, take, search)

    def update_prompt(
        self, workspace: str, name: str, *, description: str | Unset | None = UNSET
    ) -> Prompt:
        value = self._mutate(
            workspace,
            "updatePrompt",
            PROMPT,
            {"args": "UpdatePromptArgs!"},
            promptName=name,
            args=given(description=description),
        )
        return decoding(read_prompt, value)

    def find_prompt_version(
        self,
        workspace: str,
        name: str,
        constraint: str | None = None,
        *,
        status: Status | None = None,
    ) -> PromptVersion | None:
        text = (
            "query ($promptName: ID!, $constraint: String, $status: PromptVersionStatus) { "
            f"prompt(promptName: $promptName) {{ {PROMPT} "
            f"version(constraint: $constraint, status: $status) {{ {PROMPT_VERSION} }} }} }}"
        )
        variables = {"promptName": name, "constraint": constraint, "status": word(status)}
        value = self._request(workspace, text, "prompt", variables)
        prompt = decoding(read_prompt, value)
        found = decoding(lambda one: one["version"], value)
        if found is None:
            return None
        return decoding(lambda one: read_prompt_version(one, prompt), found)

    def get_prompt_version(
        self,
        workspace: str,
        name: str,
        constraint: str | None = None,
        *,
        status: Status | None = None,
    ) -> PromptVersion:
        found = self.find_prompt_version(workspace, name, constraint, status=status)
        if found is None:
            raise version_unknown(f"@{workspace}/{name}", constraint)
        return found

    def list_prompt_versions(
        self,
        workspace: str,
        name: str,
        *,
        skip: int = 0,
        take: int = 50,
        status: Status | None = None,
    ) -> Page[PromptVersion]:
        text = (
            "query ($promptName: ID!, $pagination: PaginationArgs!, "
            "$status: PromptVersionStatus) { "
            f"prompt(promptName: $promptName) {{ {PROMPT} "
            "versions(pagination: $pagination, status: $status) "
            f"{{ data {{ {PROMPT_VERSION} }} total }} }} }}"
        )
        page = {"skip": skip, "take": take}
        variables = {"promptName": name, "pagination": page, "status": word(status)}
        value = self._request(workspace, text, "prompt", variables)
        prompt = decoding(read_prompt, value)
        return decoding(
            lambda one: read_page(one["versions"], lambda each: read_prompt_version(each, prompt)),
            value,
        )

    def create_prompt_draft(self, workspace: str, name: str) -> PromptVersion:
        return self._mutate_version(workspace, name, "createPromptVersion")

    def publish_prompt_version(self, workspace: str, name: str, number: str) -> PromptVersion:
        return self._mutate_version(workspace, name, "publishPromptVersion", version=number)

    def delete_prompt_version(self, workspace: str, name: str, version: str) -> bool:
        return bool(
            self._mutate(workspace, "deletePromptVersion", promptName=name, version=version)
        )

    def set_prompt_metadata(
        self,
        workspace: str,
        name: str,
        version: str,
        *,
        set: _Json | None = None,  # noqa: A002 - the service's word
        delete: Iterable[str] = (),
        replace: bool = False,
    ) -> PromptVersion:
        return self._mutate_version(
            workspace,
            name,
            "promptVersionPatchMetadata",
            version=version,
            set=dict(set or {}),
            delete=list(delete),
            replace=replace,
        )

    def set_prompt_output_schema(
        self, workspace: str, name: str, version: str, schema: _Json | None
    ) -> PromptVersion:
        return self._mutate_version(
            workspace,
            name,
            "promptVersionSetOutputSchema",
            version=version,
            outputSchema=schema,
        )

    def set_prompt_readme(
        self, workspace: str, name: str, version: str, readme: str
    ) -> PromptVersion:
        return self._mutate_version(
            workspace, name, "promptVersionSetReadme", version=version, readme=readme
        )

    def set_prompt_model_config(
        self,
        workspace: str,
        name: str,
        version: str,
        *,
        provider: Provider,
        model: str,
        parameters: _Json | None = None,
    ) -> PromptVersion:
        chosen = {"provider": provider.value, "model": model, "parameters": parameters}
        return self._mutate_version(
            workspace, name, "promptVersionSetModelConfig", version=version, modelConfig=chosen
        )

    # -- files

    def create_prompt_file(
        self,
        workspace: str,
        name: str,
        version: str,
        file_name: str,
        content: str,
        *,
        is_entrypoint: bool = False,
        format: FileFormat = FileFormat.TEXT,  # noqa: A002 - the wire's word
    ) -> PromptFile:
        args = {
            "name": file_name,
            "content": content,
            "isEntrypoint": is_entrypoint,
            "format": format.value,
        }
        value = self._mutate(
            workspace,
            "createPromptFile",
            PROMPT_FILE,
            {"args": "CreatePromptFileInput!"},
            promptName=name,
            version=version,
            args=args,
        )
        return decoding(read_file, value)

    def update_prompt_file(
        self,
        workspace: str,
        name: str,
        version: str,
        file_name: str,
        *,
        content: str | Unset = UNSET,
        new_name: str | Unset = UNSET,
        format: FileFormat | Unset = UNSET,  # noqa: A002 - the wire's word
    ) -> PromptVersion:
        chosen = format if isinstance(format, Unset) else format.value
        return self._mutate_version(
            workspace,
            name,
            "updatePromptFile",
            {"args": "UpdatePromptFileInput!"},
            version=version,
            fileName=file_name,
            args=given(content=content, name=new_name, format=chosen),
        )

    def delete_prompt_file(self, workspace: str, name: str, version: str, file_name: str) -> None:
        self._mutate(
            workspace, "deletePromptFile", promptName=name, version=version, fileName=file_name
        )

    def set_prompt_file_entrypoint(
        self, workspace: str, name: str, version: str, file_name: str, is_entrypoint: bool
    ) -> PromptVersion:
        return self._mutate_version(
            workspace,
            name,
            "setPromptFileEntrypoint",
            version=version,
            fileName=file_name,
            isEntrypoint=is_entrypoint,
        )

    # -- pins

    def link_tool(
        self,
        workspace: str,
        name: str,
        version: str,
        *,
        tool_workspace: str,
        tool_name: str,
        constraint: str | None = None,
        alias: str | None = None,
    ) -> PromptVersion:
        tool = {"workspace": tool_workspace, "name": tool_name, "version": constraint}
        return self._mutate_version(
            workspace,
            name,
            "linkTool",
            {"args": "LinkToolInput!"},
            version=version,
            args={"tool": tool, "alias": alias},
        )

    def rename_pin(
        self,
        workspace: str,
        name: str,
        version: str,
        *,
        tool_workspace: str,
        tool_name: str,
        alias: str,
    ) -> PromptVersion:
        return self._mutate_version(
            workspace,
            name,
            "updateToolLink",
            version=version,
            tool={"workspace": tool_workspace, "name": tool_name},
            alias=alias,
        )

    def unlink_tool(
        self, workspace: str, name: str, version: str, *, tool_workspace: str, tool_name: str
    ) -> PromptVersion:
        return self._mutate_version(
            workspace,
            name,
            "unlinkTool",
            version=version,
            tool={"workspace": tool_workspace, "name": tool_name},
        )
