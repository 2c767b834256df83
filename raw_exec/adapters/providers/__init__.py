"""Model providers: definitions to send, tool calls to run, results to send back.

    tools = runtime.registry.projected("anthropic")
    response = client.messages.create(tools=tools.definitions, ...)
    messages += await answer_calls(runtime.registry.dispatch, tools, response)

Nothing here talks to a provider or needs its SDK.
"""

from __future__ import annotations

from ...profiles import (
    LINT_PROFILES,
    PROFILES,
    Profile,
    ProjectedTool,
    ProjectedTools,
    WithheldTool,
    profile_named,
    project_tools,
)
from .calls import ProviderCall, read_calls
from .conversation import answer_calls, answer_calls_blocking, call_arguments
from .results import result_messages

__all__ = [
    "LINT_PROFILES",
    "PROFILES",
    "Profile",
    "ProjectedTool",
    "ProjectedTools",
    "ProviderCall",
    "WithheldTool",
    "answer_calls",
    "answer_calls_blocking",
    "call_arguments",
    "profile_named",
    "project_tools",
    "read_calls",
    "result_messages",
]
