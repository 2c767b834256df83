"""The configuration file: strict JSON with positions, the checked model, init, describe."""

from __future__ import annotations

from .describe import describe_config
from .load import config_path, init_config, load_config
from .model import (
    AgentConfig,
    Config,
    ContractsConfig,
    McpServer,
    ProviderConfig,
    ToolUse,
    VarConfig,
    VarSource,
)
from .sandbox import ProfileSpec, SandboxConfig

__all__ = [
    "AgentConfig",
    "Config",
    "ContractsConfig",
    "McpServer",
    "ProfileSpec",
    "ProviderConfig",
    "SandboxConfig",
    "ToolUse",
    "VarConfig",
    "VarSource",
    "config_path",
    "describe_config",
    "init_config",
    "load_config",
]
