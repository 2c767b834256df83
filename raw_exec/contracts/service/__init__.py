"""Every operation of the registry, as a plain function in somebody's transaction.

``f(session, principal, …)``: the session comes from ``store.read`` or ``store.write``, the
principal from ``authenticate`` (or ``Principal.operator()`` for whoever holds the file). A
function returns frozen values and raises ``RegistryError``; an exception must leave the
transaction, so that it rolls back.
"""

from .accounts import (
    add_user,
    add_workspace,
    get_workspace,
    list_members,
    list_users,
    list_workspaces,
    me,
    my_memberships,
    remove_member,
    set_member,
    set_workspace,
)
from .dependents import dependent_count
from .device import (
    DeviceLogin,
    DevicePoll,
    approve_device,
    deny_device,
    poll_device,
    start_device_login,
)
from .files import (
    create_prompt_file,
    delete_prompt_file,
    set_prompt_file_entrypoint,
    update_prompt_file,
)
from .keys import authenticate, create_key, list_keys, revoke_key
from .pins import link_tool, rename_pin, unlink_tool
from .prompt_versions import (
    create_prompt_draft,
    delete_prompt_version,
    find_prompt_version,
    get_prompt_version,
    list_prompt_versions,
    publish_prompt_version,
    set_prompt_metadata,
    set_prompt_model_config,
    set_prompt_output_schema,
    set_prompt_readme,
)
from .prompts import (
    create_prompt,
    get_prompt,
    list_prompts,
    set_prompt_visibility,
    update_prompt,
)
from .tool_versions import (
    create_tool_draft,
    delete_tool_version,
    find_tool_version,
    get_tool_version,
    list_tool_versions,
    patch_tool_metadata,
    publish_tool_version,
    update_tool_version,
)
from .tools import (
    create_tool,
    delete_tool,
    get_tool,
    list_tools,
    set_tool_visibility,
    update_tool,
)

__all__ = [
    "DeviceLogin",
    "DevicePoll",
    "add_user",
    "add_workspace",
    "approve_device",
    "authenticate",
    "create_key",
    "create_prompt",
    "create_prompt_draft",
    "create_prompt_file",
    "create_tool",
    "create_tool_draft",
    "delete_prompt_file",
    "delete_prompt_version",
    "delete_tool",
    "delete_tool_version",
    "deny_device",
    "dependent_count",
    "find_prompt_version",
    "find_tool_version",
    "get_prompt",
    "get_prompt_version",
    "get_tool",
    "get_tool_version",
    "get_workspace",
    "link_tool",
    "list_keys",
    "list_members",
    "list_prompt_versions",
    "list_prompts",
    "list_tool_versions",
    "list_tools",
    "list_users",
    "list_workspaces",
    "me",
    "my_memberships",
    "patch_tool_metadata",
    "poll_device",
    "publish_prompt_version",
    "publish_tool_version",
    "remove_member",
    "rename_pin",
    "revoke_key",
    "set_member",
    "set_prompt_file_entrypoint",
    "set_prompt_metadata",
    "set_prompt_model_config",
    "set_prompt_output_schema",
    "set_prompt_readme",
    "set_prompt_visibility",
    "set_tool_visibility",
    "set_workspace",
    "start_device_login",
    "unlink_tool",
    "update_prompt",
    "update_prompt_file",
    "update_tool",
    "update_tool_version",
]
