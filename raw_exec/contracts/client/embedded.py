"""The registry in a database file, without a server: whoever holds the file may do all.

Needs SQLAlchemy, so it is imported only where such a file is opened.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy.orm import Session

from .. import service
from ..model import Principal
from ..store import Store

__all__ = ["EmbeddedRegistry"]

P = ParamSpec("P")
T = TypeVar("T")
_Operation = Callable[Concatenate[Session, Principal, P], T]


def _reads(operation: _Operation[P, T]) -> Callable[Concatenate[EmbeddedRegistry, P], T]:
    """Make a method of a reading operation: the same arguments, in a transaction of its own."""

    def method(self: EmbeddedRegistry, /, *args: P.args, **named: P.kwargs) -> T:
        return self.store.read(lambda s: operation(s, self.principal, *args, **named))

    method.__doc__ = operation.__doc__
    return method


def _writes(operation: _Operation[P, T]) -> Callable[Concatenate[EmbeddedRegistry, P], T]:
    """Make a method of a writing operation."""

    def method(self: EmbeddedRegistry, /, *args: P.args, **named: P.kwargs) -> T:
        return self.store.write(lambda s: operation(s, self.principal, *args, **named))

    method.__doc__ = operation.__doc__
    return method


class EmbeddedRegistry:
    """Every operation on an open database; the methods are those of ``RemoteRegistry``.

    Args:
        store: Closed together with this.
        address: Where it is, for messages.
    """

    def __init__(self, store: Store, address: str, principal: Principal | None = None) -> None:
        self.store = store
        self.address = address
        self.principal = principal or Principal.operator()

    def close(self) -> None:
        """Close the database."""
        self.store.close()

    create_tool = _writes(service.create_tool)
    get_tool = _reads(service.get_tool)
    list_tools = _reads(service.list_tools)
    update_tool = _writes(service.update_tool)
    dependent_count = _reads(service.dependent_count)
    find_tool_version = _reads(service.find_tool_version)
    get_tool_version = _reads(service.get_tool_version)
    list_tool_versions = _reads(service.list_tool_versions)
    create_tool_draft = _writes(service.create_tool_draft)
    update_tool_version = _writes(service.update_tool_version)
    patch_tool_metadata = _writes(service.patch_tool_metadata)
    publish_tool_version = _writes(service.publish_tool_version)
    delete_tool_version = _writes(service.delete_tool_version)

    create_prompt = _writes(service.create_prompt)
    get_prompt = _reads(service.get_prompt)
    list_prompts = _reads(service.list_prompts)
    update_prompt = _writes(service.update_prompt)
    find_prompt_version = _reads(service.find_prompt_version)
    get_prompt_version = _reads(service.get_prompt_version)
    list_prompt_versions = _reads(service.list_prompt_versions)
    create_prompt_draft = _writes(service.create_prompt_draft)
    publish_prompt_version = _writes(service.publish_prompt_version)
    delete_prompt_version = _writes(service.delete_prompt_version)
    set_prompt_metadata = _writes(service.set_prompt_metadata)
    set_prompt_output_schema = _writes(service.set_prompt_output_schema)
    set_prompt_readme = _writes(service.set_prompt_readme)
    set_prompt_model_config = _writes(service.set_prompt_model_config)

    create_prompt_file = _writes(service.create_prompt_file)
    update_prompt_file = _writes(service.update_prompt_file)
    set_prompt_file_entrypoint = _writes(service.set_prompt_file_entrypoint)
    _delete_file = _writes(service.delete_prompt_file)

    link_tool = _writes(service.link_tool)
    rename_pin = _writes(service.rename_pin)
    unlink_tool = _writes(service.unlink_tool)

    def delete_prompt_file(self, workspace: str, name: str, version: str, file_name: str) -> None:
        """Remove a file from a draft."""
        self._delete_file(workspace, name, version, file_name)
