"""Find, read and check the configuration file; write a starter.

Rules:

1. ``path``, else ``$XDG_CONFIG_HOME/raw/config.json``, else ``~/.config/raw/config.json``.
   Only the implicit file may be missing: then defaults hold.
2. The agent is ``agent``, else ``RAW_AGENT``, else ``default_agent``, else the only agent. With
   no agents at all there is one called ``default``, without tools.
3. Everything wrong is reported at once, with pointer, line and column. Nothing is run.
"""

from __future__ import annotations

import dataclasses
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from ..errors import ConfigError, Problem, first_problem
from ..fields import Cursor, Document, did_you_mean, shown
from ..jsontext import JsonTextError, parse, read_regular_file
from ..limits import MAX_SAFE_INTEGER, Limits
from ..values import freeze
from .agents import check_agents, default_agents
from .mcp import check_mcp
from .model import AgentConfig, Config, ContractsConfig, McpServer, ProviderConfig, VarConfig
from .sandbox import check_sandbox
from .sources import check_contracts, check_providers, check_vars

__all__ = ["config_path", "init_config", "load_config"]

MAX_CONFIG_BYTES = 4 * 1024 * 1024
"""Room for 20,000 selected tools with long names."""

_KIB = 1024
_MIB = 1024 * _KIB
_TIB = 1024 * 1024 * _MIB
_DAY_MS = 24 * 60 * 60 * 1000
LIMIT_RANGES: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    {
        "call_ms": (1, _DAY_MS),
        "load_ms": (1, 600_000),
        "grace_ms": (0, 60_000),
        "descriptor_ms": (1, 10_000),
        "memory_bytes": (16 * _MIB, _TIB),
        "result_bytes": (_KIB, 256 * _MIB),
        "log_bytes": (0, 64 * _MIB),
        "scratch_bytes": (0, _TIB),
        "idle_ms": (0, _DAY_MS),
        "max_calls": (1, MAX_SAFE_INTEGER),
        "max_workers": (1, 1024),
        "growth_bytes": (_MIB, _TIB),
    }
)
"""Lowest and highest accepted value of every field of ``Limits``."""

_FIELDS = (
    "default_agent",
    "models",
    "agents",
    "vars",
    "var_providers",
    "mcp",
    "sandbox",
    "limits",
    "contracts",
)
_STARTER = """\
{
  "default_agent": "main",
  "agents": {
    "main": {
      "tools": {
        "use": [],
        "rules": []
      }
    }
  },
  "sandbox": {
    "default": "workspace"
  }
}
"""


def config_path(environ: Mapping[str, str] | None = None) -> Path:
    """Return the implicit configuration file, whether it exists or not.

    A relative ``XDG_CONFIG_HOME`` is ignored, as the XDG specification asks.
    """
    env = os.environ if environ is None else environ
    base = env.get("XDG_CONFIG_HOME", "")
    if os.path.isabs(base):
        return Path(base, "raw", "config.json")
    home = env.get("HOME", "")
    if not os.path.isabs(home):
        home = os.path.expanduser("~")
    return Path(home, ".config", "raw", "config.json")


def load_config(
    path: str | os.PathLike[str] | None = None,
    *,
    agent: str | None = None,
    require_model: bool = False,
    environ: Mapping[str, str] | None = None,
) -> Config:
    """Load and check a configuration, and choose its agent.

    Args:
        path: The file; ``None`` for the implicit one, which may be missing.
        agent: Name of the agent, before ``RAW_AGENT`` and ``default_agent``.
        require_model: Refuse a configuration without ``models``; tools never need one.
        environ: Instead of the process environment.

    Raises:
        ConfigError: ``config_missing``, ``config_unreadable``, ``config_invalid`` with every
            problem, ``unknown_agent``, ``agent_not_chosen`` or ``model_missing``.
    """
    env = os.environ if environ is None else environ
    file = Path(os.path.abspath(config_path(env) if path is None else os.fspath(path)))
    warnings: list[str] = []
    data = _read(file, path is not None, warnings)
    text, value = _parse(b"{}" if data is None else data, file)
    document = Document(text)
    fields = _check_fields(document.root(value))
    config = _build(fields, None if data is None else file, file.parent, warnings)
    if not document.ok:
        raise _invalid(document.problems(), file)
    if require_model and not config.models:
        raise ConfigError(
            "model_missing", "no models are configured", where=str(file), hint="add 'models'"
        )
    return dataclasses.replace(config, agent=_choose(config, agent, env, file))


def _read(file: Path, explicit: bool, warnings: list[str]) -> bytes | None:
    try:
        data = read_regular_file(file, MAX_CONFIG_BYTES)
        info = os.stat(file)
    except (FileNotFoundError, NotADirectoryError) as exc:
        if not explicit:
            return None
        raise ConfigError(
            "config_missing",
            "there is no such configuration file",
            where=str(file),
            hint="write one with: raw config init",
        ) from exc
    except OSError as exc:
        raise ConfigError(
            "config_unreadable", f"can not be read: {exc.strerror}", where=str(file)
        ) from exc
    except JsonTextError as exc:
        raise ConfigError("config_unreadable", exc.message, where=str(file)) from exc
    _check_mode(file, info, warnings)
    return data


def _check_mode(file: Path, info: os.stat_result, warnings: list[str]) -> None:
    mode = stat.S_IMODE(info.st_mode)
    if mode & 0o022:
        warnings.append(f"{file} can be changed by other users (mode {mode:04o}); chmod 600 it")
    elif mode & 0o044:
        warnings.append(f"{file} can be read by other users (mode {mode:04o}); chmod 600 it")
    if info.st_uid not in (0, os.geteuid()):
        warnings.append(f"{file} belongs to another user (uid {info.st_uid})")


def _parse(data: bytes, file: Path) -> tuple[str, Any]:
    try:
        value = parse(data, max_bytes=MAX_CONFIG_BYTES, where=str(file))
    except JsonTextError as exc:
        raise ConfigError(
            "config_invalid", exc.message, where=str(file), hint=exc.hint, problems=exc.problems
        ) from exc
    return data.decode("utf-8"), value


def _invalid(problems: tuple[Problem, ...], file: Path) -> ConfigError:
    return ConfigError(
        "config_invalid", first_problem(problems), where=str(file), problems=problems
    )


def _check_fields(root: Cursor) -> Mapping[str, Cursor]:
    return root.fields(_FIELDS) or {}


def _build(
    fields: Mapping[str, Cursor], file: Path | None, directory: Path, warnings: list[str]
) -> Config:
    models: Mapping[str, Any] = {}
    if "models" in fields:
        if isinstance(fields["models"].value, dict):
            models = freeze(fields["models"].value)
        else:
            fields["models"].wrong_type("an object")
    providers: dict[str, ProviderConfig] = {}
    if "var_providers" in fields:
        providers = check_providers(fields["var_providers"])
    variables: dict[str, VarConfig] = {}
    if "vars" in fields:
        variables = check_vars(fields["vars"], providers)
    agents = check_agents(fields["agents"], variables) if "agents" in fields else {}
    if not agents:
        agents = default_agents()
    default_agent = None
    if "default_agent" in fields:
        default_agent = fields["default_agent"].string()
        if default_agent is not None and default_agent not in agents:
            hint = did_you_mean(default_agent, agents)
            fields["default_agent"].fail(
                f"unknown agent {shown(default_agent)}{hint}; agents: {', '.join(agents)}"
            )
    sandbox = check_sandbox(fields.get("sandbox"), warnings)
    servers: dict[str, McpServer] = {}
    if "mcp" in fields:
        servers = check_mcp(fields["mcp"], variables, sandbox.profiles, warnings)
    contracts = check_contracts(fields["contracts"]) if "contracts" in fields else None
    return Config(
        path=file,
        directory=directory,
        agent=next(iter(agents.values())),
        agents=MappingProxyType(agents),
        default_agent=default_agent,
        models=models,
        sandbox=sandbox,
        limits=_check_limits(fields["limits"]) if "limits" in fields else Limits(),
        vars=MappingProxyType(variables),
        var_providers=MappingProxyType(providers),
        mcp=MappingProxyType(servers),
        contracts=contracts or ContractsConfig(),
        warnings=tuple(warnings),
    )


def _check_limits(cursor: Cursor) -> Limits:
    fields = cursor.fields(tuple(LIMIT_RANGES)) or {}
    values = {name: item.integer(*LIMIT_RANGES[name]) for name, item in fields.items()}
    return Limits(**{name: value for name, value in values.items() if value is not None})


def _choose(config: Config, agent: str | None, env: Mapping[str, str], file: Path) -> AgentConfig:
    origin = "--agent"
    name = agent
    if name is None and env.get("RAW_AGENT"):
        origin, name = "RAW_AGENT", env["RAW_AGENT"]
    if name is None:
        origin, name = "default_agent", config.default_agent
    if name is None and len(config.agents) == 1:
        name = next(iter(config.agents))
    listed = ", ".join(config.agents)
    if name is None:
        raise ConfigError(
            "agent_not_chosen",
            f"there are {len(config.agents)} agents and none is chosen: {listed}",
            where=str(file),
            hint="set default_agent, RAW_AGENT or --agent",
        )
    chosen = config.agents.get(name)
    if chosen is None:
        raise ConfigError(
            "unknown_agent",
            f"unknown agent {shown(name)} (from {origin}){did_you_mean(name, config.agents)}",
            where=str(file),
            hint=f"agents: {listed}",
        )
    return chosen


def init_config(
    path: str | os.PathLike[str] | None = None, *, environ: Mapping[str, str] | None = None
) -> Path:
    """Write a starter configuration with mode 0600 and return its path.

    Raises:
        ConfigError: ``config_exists``: nothing is ever overwritten; or ``config_unwritable``.
    """
    file = Path(os.path.abspath(config_path(environ) if path is None else os.fspath(path)))
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        _make_parents(file.parent)
        fd = os.open(file, flags, 0o600)
    except FileExistsError as exc:
        raise ConfigError(
            "config_exists", "exists already and is not overwritten", where=str(file)
        ) from exc
    except OSError as exc:
        raise ConfigError(
            "config_unwritable", f"can not be written: {exc.strerror}", where=str(file)
        ) from exc
    with os.fdopen(fd, "w", encoding="utf-8") as out:
        os.fchmod(fd, 0o600)
        out.write(_STARTER)
    return file


def _make_parents(folder: Path) -> None:
    # Path.mkdir gives parents the default mode, and these may come to hold secrets.
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for item in reversed(missing):
        item.mkdir(mode=0o700, exist_ok=True)
