"""The configuration file: where it is, what it may say, which agent is meant."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from raw_exec.config import (
    Config,
    McpServer,
    ProviderConfig,
    ToolUse,
    VarConfig,
    VarSource,
    config_path,
    describe_config,
    init_config,
    load_config,
)
from raw_exec.errors import ConfigError
from raw_exec.limits import Limits


def write(folder: Path, document: Any) -> Path:
    path = folder / "config.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document, indent=1))
    path.chmod(0o600)
    return path


def load(folder: Path, document: Any, **kwargs: Any) -> Config:
    return load_config(write(folder, document), environ={}, **kwargs)


def refusal(folder: Path, document: Any, **kwargs: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load(folder, document, **kwargs)
    return caught.value


def pointers(folder: Path, document: Any) -> list[str]:
    error = refusal(folder, document)
    assert error.code == "config_invalid"
    assert all(problem.line is not None for problem in error.problems)
    return [problem.pointer for problem in error.problems]


def test_without_a_file_there_is_one_agent_without_tools(tmp_path: Path) -> None:
    """spec: a missing implicit file means defaults."""
    config = load_config(environ={"HOME": str(tmp_path)})
    assert config.path is None
    assert config.directory == tmp_path / ".config" / "raw"
    assert list(config.agents) == ["default"]
    assert config.agent.tools_use == ()
    assert config.limits == Limits()
    assert config.sandbox.default == "workspace"


def test_a_missing_explicit_file_is_an_error(tmp_path: Path) -> None:
    """spec: only the implicit file may be missing."""
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "none.json", environ={})
    assert caught.value.code == "config_missing"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"XDG_CONFIG_HOME": "/x", "HOME": "/h"}, "/x/raw/config.json"),
        ({"XDG_CONFIG_HOME": "x", "HOME": "/h"}, "/h/.config/raw/config.json"),
        ({"XDG_CONFIG_HOME": "", "HOME": "/h"}, "/h/.config/raw/config.json"),
    ],
)
def test_the_implicit_file_follows_xdg(environ: dict[str, str], expected: str) -> None:
    """XDG: a relative value is ignored."""
    assert config_path(environ) == Path(expected)


def test_a_relative_path_gives_absolute_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``raw --config raw.json`` must not depend on a later change of directory."""
    write(tmp_path, {})
    monkeypatch.chdir(tmp_path)
    config = load_config("config.json", environ={})
    assert (config.path, config.directory) == (tmp_path / "config.json", tmp_path)


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_regular_file_is_refused(tmp_path: Path, make: Any) -> None:
    """Attack corpus X10."""
    make(tmp_path / "c")
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "c", environ={})
    assert caught.value.code == "config_unreadable"


def test_every_field_is_read(tmp_path: Path) -> None:
    """spec, "Configuration file"; compared as whole values."""
    config = load(
        tmp_path,
        {
            "default_agent": "a",
            "models": {"m": {"anything": [1]}},
            "agents": {
                "a": {
                    "tools": {
                        "use": ["local/x", {"ref": "agent/y", "as": "Y"}, "mcp/s/read file"[:10]],
                        "rules": [{"match": "local/*", "effect": "ask"}],
                    },
                    "hooks": {"use": ["agent/guard"]},
                    "vars": ["host"],
                    "max_output_bytes": 100,
                    "request_timeout_ms": 5,
                    "model": "m",
                }
            },
            "vars": {
                "host": {
                    "description": "d",
                    "access": "read",
                    "type": "string",
                    "cache_ttl_ms": 7,
                    "source": {"kind": "provider", "name": "p", "params": {"a": 1}},
                },
                "now": {
                    "description": "d",
                    "access": "use",
                    "source": {"kind": "provider", "name": "system.time"},
                },
                "lit": {
                    "description": "d",
                    "access": "use",
                    "type": "number",
                    "source": {"kind": "literal", "value": 5},
                },
                "env": {
                    "description": "d",
                    "access": "use",
                    "source": {"kind": "env", "name": "A_1"},
                },
                "file": {
                    "description": "d",
                    "access": "read",
                    "source": {"kind": "file", "path": "x.json", "format": "json"},
                },
            },
            "var_providers": {"p": {"command": "node", "args": ["h.mjs"], "timeout_ms": 9}},
            "mcp": {
                "servers": {"s": {"command": "c", "env": {"K": "v"}}, "w": {"url": "http://h"}}
            },
            "limits": {"call_ms": 5.0, "max_workers": 3},
            "contracts": {"registry": "https://h/x", "store": "c.db"},
        },
    )
    agent = config.agent
    assert agent.tools_use == (
        ToolUse("local/x", None, "/agents/a/tools/use/0"),
        ToolUse("agent/y", "Y", "/agents/a/tools/use/1/ref"),
        ToolUse("mcp/s/read", None, "/agents/a/tools/use/2"),
    )
    assert agent.raw_rules == ({"match": "local/*", "effect": "ask"},)
    assert (agent.hooks_use, agent.vars, agent.model) == (("agent/guard",), ("host",), "m")
    assert (agent.max_output_bytes, agent.request_timeout_ms) == (100, 5)
    assert config.vars == {
        "host": VarConfig(
            "host", "d", "read", VarSource("provider", name="p", params={"a": 1}), "string", 7
        ),
        "now": VarConfig("now", "d", "use", VarSource("provider", name="system.time", params={})),
        "lit": VarConfig("lit", "d", "use", VarSource("literal", value=5), "number"),
        "env": VarConfig("env", "d", "use", VarSource("env", name="A_1")),
        "file": VarConfig("file", "d", "read", VarSource("file", path="x.json", format="json")),
    }
    assert config.var_providers == {"p": ProviderConfig("p", "node", ("h.mjs",), None, 9, 65536)}
    assert config.mcp == {
        "s": McpServer("s", command="c", env={"K": "v"}),
        "w": McpServer("w", url="http://h"),
    }
    assert config.limits == Limits(call_ms=5, max_workers=3)
    assert (config.contracts.registry, config.contracts.store) == ("https://h/x", "c.db")
    assert config.models == {"m": {"anything": [1]}}
    assert config.warnings == ()


VAR = {"description": "d", "access": "use", "source": {"kind": "literal", "value": 1}}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ([], [""]),
        ({"agent": {}}, ["/agent"]),
        ({"__proto__": {}}, ["/__proto__"]),
        ({"models": []}, ["/models"]),
        ({"default_agent": 1}, ["/default_agent"]),
        ({"default_agent": "b", "agents": {"a": {}}}, ["/default_agent"]),
        (
            {"agents": {"": {}, "__proto__": {}, "a/b": {}}},
            ["/agents/", "/agents/__proto__", "/agents/a~1b"],
        ),
        ({"agents": {"a": []}}, ["/agents/a"]),
        ({"agents": {"a": {"tools": {"used": []}}}}, ["/agents/a/tools/used"]),
        ({"agents": {"a": {"tools": {"use": {}}}}}, ["/agents/a/tools/use"]),
        (
            {
                "agents": {
                    "a": {"tools": {"use": ["x", "local/*", "local/../x", "other/x", "local/X", 1]}}
                }
            },
            [f"/agents/a/tools/use/{i}" for i in range(6)],
        ),
        ({"agents": {"a": {"tools": {"use": [{"as": "x"}]}}}}, ["/agents/a/tools/use/0"]),
        (
            {"agents": {"a": {"tools": {"use": [{"ref": "local/x", "as": "1x"}]}}}},
            ["/agents/a/tools/use/0/as"],
        ),
        ({"agents": {"a": {"tools": {"use": ["local/x", "local/x"]}}}}, ["/agents/a/tools/use/1"]),
        (
            {
                "agents": {
                    "a": {
                        "tools": {
                            "rules": [
                                {"match": "*", "effect": "allow"},
                                {"match": "*", "effect": "maybe"},
                                7,
                            ]
                        }
                    }
                }
            },
            ["/agents/a/tools/rules/1", "/agents/a/tools/rules/2"],
        ),
        ({"agents": {"a": {"hooks": {"use": ["builtin/x"]}}}}, ["/agents/a/hooks/use/0"]),
        ({"agents": {"a": {"vars": ["x"]}}}, ["/agents/a/vars/0"]),
        ({"agents": {"a": {"max_output_bytes": 0}}}, ["/agents/a/max_output_bytes"]),
        ({"agents": {"a": {"request_timeout_ms": "1"}}}, ["/agents/a/request_timeout_ms"]),
        ({"vars": {"X": VAR}}, ["/vars/X"]),
        ({"vars": {"x": {}}}, ["/vars/x"] * 3),
        ({"vars": {"x": {**VAR, "access": "write"}}}, ["/vars/x/access"]),
        ({"vars": {"x": {**VAR, "type": "string"}}}, ["/vars/x/source/value"]),
        (
            {
                "vars": {
                    "x": {**VAR, "type": "number", "source": {"kind": "literal", "value": True}}
                }
            },
            ["/vars/x/source/value"],
        ),
        (
            {"vars": {"x": {**VAR, "source": {"kind": "env", "name": "A-B"}}}},
            ["/vars/x/source/name"],
        ),
        ({"vars": {"x": {**VAR, "source": {"kind": "file", "path": ""}}}}, ["/vars/x/source/path"]),
        (
            {"vars": {"x": {**VAR, "source": {"kind": "literal", "value": 1, "name": "y"}}}},
            ["/vars/x/source/name"],
        ),
        (
            {"vars": {"x": {**VAR, "source": {"kind": "provider", "name": "q"}}}},
            ["/vars/x/source/name"],
        ),
        ({"vars": {"x": {**VAR, "source": {"kind": "magic"}}}}, ["/vars/x/source/kind"]),
        ({"vars": {"x": {**VAR, "cache_ttl_ms": -1}}}, ["/vars/x/cache_ttl_ms"]),
        ({"var_providers": {"system.time": {"command": "x"}}}, ["/var_providers/system.time"]),
        ({"var_providers": {"x": {}}}, ["/var_providers/x"]),
        ({"var_providers": {"x": {"command": "a", "args": ["\0"]}}}, ["/var_providers/x/args/0"]),
        (
            {"var_providers": {"x": {"command": "a", "max_output_bytes": 2**20 + 1}}},
            ["/var_providers/x/max_output_bytes"],
        ),
        ({"mcp": {"servers": {"x": {}}}}, ["/mcp/servers/x"]),
        ({"mcp": {"servers": {"x": {"command": "a", "url": "http://h"}}}}, ["/mcp/servers/x"]),
        ({"mcp": {"servers": {"x": {"url": "file:///etc"}}}}, ["/mcp/servers/x/url"]),
        ({"mcp": {"servers": {"x": {"url": "http://u:p@h"}}}}, ["/mcp/servers/x/url"]),
        ({"contracts": {"registry": "x"}}, ["/contracts/registry"]),
    ],
)
def test_each_wrong_field_is_refused_at_its_place(
    tmp_path: Path, document: Any, expected: list[str]
) -> None:
    """spec: one strict file; every problem with pointer, line and column."""
    assert pointers(tmp_path, document) == expected


@pytest.mark.parametrize("name", list(Limits.__dataclass_fields__))
@pytest.mark.parametrize("value", ["-1", "1e308", "1.5", '"5"', "true", "null"])
def test_no_limit_takes_nonsense(tmp_path: Path, name: str, value: str) -> None:
    """Attack corpus X27."""
    assert pointers(tmp_path, f'{{"limits": {{"{name}": {value}}}}}') == [f"/limits/{name}"]


def test_everything_wrong_is_reported_at_once_in_order(tmp_path: Path) -> None:
    """Ours: one round trip for the operator."""
    text = '{\n "limits": {"call_ms": 0},\n "agnets": {},\n "vars": {"é": 1}\n}'
    error = refusal(tmp_path, text)
    assert [str(problem) for problem in error.problems] == [
        "2:24 /limits/call_ms: is 0; it must be between 1 and 86400000",
        "3:2 /agnets: unknown field 'agnets'; did you mean 'agents'?",
        "4:11 /vars/é: variable name '\\xe9' must match [a-z][a-z0-9_.-]{0,63}",
    ]
    assert "(and 2 more problems)" in error.message


def test_a_duplicate_field_is_refused_with_both_places(tmp_path: Path) -> None:
    """spec: duplicate fields are errors with line and column."""
    error = refusal(tmp_path, '{\n "limits": {},\n "limits": {}\n}')
    assert [str(problem) for problem in error.problems] == [
        "3:2 /limits: duplicate key 'limits'; first at 2:2"
    ]


def test_a_secret_is_in_no_message_and_no_repr(tmp_path: Path) -> None:
    """A secret in the right field or in the wrong one is not echoed."""
    secret = "s3cret-value"
    source = {"kind": "literal", "value": secret}
    good = {**VAR, "source": source}
    config = load(
        tmp_path,
        {"vars": {"x": good}, "mcp": {"servers": {"s": {"command": "c", "env": {"K": secret}}}}},
    )
    assert secret not in repr(config)
    assert secret not in json.dumps(describe_config(config))
    error = refusal(
        tmp_path,
        {
            "vars": {"x": {**good, "type": "number"}, "y": secret},
            "limits": {"call_ms": secret},
            "mcp": {"servers": {"s": secret}},
        },
    )
    assert len(error.problems) == 4
    assert secret not in str(error.problems) + str(error)


# ---------------------------------------------------------------- agents

TWO = {"agents": {"a": {}, "b": {}}}


def test_the_agent_is_chosen_in_order(tmp_path: Path) -> None:
    """spec: ``--agent``, then ``RAW_AGENT``, then ``default_agent``; ours: then the only one."""
    path = write(tmp_path, {**TWO, "default_agent": "a"})
    assert load_config(path, agent="b", environ={"RAW_AGENT": "a"}).agent.name == "b"
    assert load_config(path, environ={"RAW_AGENT": "b"}).agent.name == "b"
    assert load_config(path, environ={"RAW_AGENT": ""}).agent.name == "a"
    assert load(tmp_path, {"agents": {"only": {}}}).agent.name == "only"


def test_an_unknown_or_unchosen_agent_is_an_error_that_lists_them(tmp_path: Path) -> None:
    """The names are the hint."""
    unknown = refusal(tmp_path, TWO, agent="c")
    assert (unknown.code, unknown.hint) == ("unknown_agent", "agents: a, b")
    assert refusal(tmp_path, TWO).code == "agent_not_chosen"


def test_a_model_is_only_needed_when_asked_for(tmp_path: Path) -> None:
    """seed 2: ``requireModel: false`` runs tools without any."""
    assert refusal(tmp_path, {}, require_model=True).code == "model_missing"
    assert load(tmp_path, {"models": {"m": {}}}, require_model=True).models == {"m": {}}


# ---------------------------------------------------------------- modes, init


@pytest.mark.parametrize(("mode", "count"), [(0o600, 0), (0o400, 0), (0o644, 1), (0o666, 1)])
def test_a_file_open_to_others_is_warned_about(tmp_path: Path, mode: int, count: int) -> None:
    """seed 2: keep config mode 0600."""
    path = write(tmp_path, {})
    path.chmod(mode)
    assert len(load_config(path, environ={}).warnings) == count


def test_init_writes_a_private_file_that_loads(tmp_path: Path) -> None:
    """spec: ``raw config init`` writes a starter with mode 0600."""
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "new" / "xdg")}
    path = init_config(environ=environ)
    assert path == tmp_path / "new" / "xdg" / "raw" / "config.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    config = load_config(environ=environ)
    assert (config.agent.name, config.warnings) == ("main", ())


def test_init_never_overwrites(tmp_path: Path) -> None:
    """spec: never overwrites; not through a dangling symlink either."""
    path = write(tmp_path, {})
    with pytest.raises(ConfigError) as caught:
        init_config(path)
    assert caught.value.code == "config_exists"
    assert path.read_text() == "{}"
    (tmp_path / "link").symlink_to("elsewhere")
    with pytest.raises(ConfigError):
        init_config(tmp_path / "link")
    assert not (tmp_path / "elsewhere").exists()


def test_the_description_says_what_is_selected(tmp_path: Path) -> None:
    """spec: ``raw config list`` prints agents, selected tools and rules."""
    rule = {"match": "builtin/*", "effect": "ask"}
    config = load(
        tmp_path,
        {"agents": {"a": {"tools": {"use": ["builtin/bash", "local/x"], "rules": [rule]}}}},
    )
    described = describe_config(config)
    assert described["agents"]["a"]["tools"] == [
        {"ref": "builtin/bash", "as": None, "profile": "shell"},
        {"ref": "local/x", "as": None, "profile": "workspace"},
    ]
    assert described["agents"]["a"]["rules"] == [rule]
    assert json.loads(json.dumps(described)) == described
