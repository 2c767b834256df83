"""Check ``mcp.servers``: which MCP servers there are, and how each is reached.

Security: nothing here echoes a value; environments and headers hold secrets. Write such a value
as ``{"var": NAME}``, so that it stands in no file that is shown or copied.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from ..fields import Cursor, did_you_mean, shown
from .model import McpServer
from .sandbox import ProfileSpec
from .sources import ENV_NAME, check_args, check_url, number_field, text_field

__all__ = ["SERVER_NAME", "check_mcp"]

SERVER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_OUR_HEADERS = re.compile(
    r"host|accept|connection|content-(?:type|length|encoding)|transfer-encoding|last-event-id"
    r"|mcp-.*",
    re.IGNORECASE,
)
_OUR_VARIABLES: Final = ("HOME", "TMPDIR", "TMP", "TEMP")
"""Set to the private directory of every confined process."""

_MAX_SERVERS = 4096
_MAX_VALUE_CHARS = 128 * 1024
_MAX_START_MS = 10 * 60 * 1000
_MAX_CALL_MS = 24 * 60 * 60 * 1000
_TYPES: Final = {"stdio": "command", "streamable-http": "url"}
"""The types, and the field that each needs."""
_OWN_FIELDS: Final = {
    "stdio": ("command", "args", "env", "cwd", "sandbox"),
    "streamable-http": ("url", "headers"),
}
_TIMES: Final = ("start_ms", "idle_ms", "call_ms")
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


def check_mcp(
    cursor: Cursor,
    variables: Mapping[str, object],
    profiles: Mapping[str, ProfileSpec],
    warnings: list[str],
) -> dict[str, McpServer]:
    """Check the ``mcp`` object.

    Args:
        variables: The configured variables, which ``env`` and ``headers`` may name.
        profiles: The sandbox profiles that ``sandbox`` may name.
        warnings: Added to.
    """
    fields = cursor.fields(("servers",)) or {}
    out: dict[str, McpServer] = {}
    if "servers" in fields:
        for name, item in fields["servers"].members(SERVER_NAME, "server name"):
            if len(out) >= _MAX_SERVERS:
                cursor.fail(f"has over {_MAX_SERVERS} servers")
                break
            out[name] = _check_server(name, item, variables, profiles, warnings)
    return out


def _check_server(
    name: str,
    cursor: Cursor,
    variables: Mapping[str, object],
    profiles: Mapping[str, ProfileSpec],
    warnings: list[str],
) -> McpServer:
    allowed = ("type", *_OWN_FIELDS["stdio"], *_OWN_FIELDS["streamable-http"], *_TIMES)
    fields = cursor.fields(allowed) or {}
    _check_type(cursor, fields)
    env, env_vars = _values(fields, "env", ENV_NAME, "environment variable", variables)
    headers, header_vars = _values(fields, "headers", _HEADER_NAME, "header name", variables)
    _check_reserved(fields)
    profile = _check_profile(fields["sandbox"], profiles) if "sandbox" in fields else None
    url = check_url(fields["url"]) if "url" in fields else None
    if url is not None and _is_plain(url) and (headers or header_vars):
        warnings.append(f"the headers of MCP server {name!r} go over plain http for all to read")
    return McpServer(
        name=name,
        command=text_field(fields, "command"),
        args=check_args(fields),
        env=env,
        env_vars=env_vars,
        cwd=text_field(fields, "cwd"),
        sandbox=profile,
        url=url,
        headers=headers,
        header_vars=header_vars,
        start_ms=number_field(fields, "start_ms", 1, _MAX_START_MS, McpServer.START_MS),
        idle_ms=number_field(fields, "idle_ms", 1, _MAX_CALL_MS, McpServer.IDLE_MS),
        call_ms=number_field(fields, "call_ms", 1, _MAX_CALL_MS, 0) or None,
    )


def _check_profile(cursor: Cursor, profiles: Mapping[str, ProfileSpec]) -> str | None:
    name = cursor.string()
    if name is None:
        return None
    profile = profiles.get(name)
    if profile is None:
        hint = did_you_mean(name, profiles)
        cursor.fail(f"unknown profile {shown(name)}{hint}; profiles: {', '.join(profiles)}")
    elif profile.effects != "declared" or profile.isolation != "pooled":
        # Security: less than the profile promises must not be what it gets.
        cursor.fail(
            f"profile {name!r} wants a process of its own for each call, and a server's one "
            "process serves them all; its effects must be 'declared', its isolation 'pooled'"
        )
    return name


def _check_type(cursor: Cursor, fields: Mapping[str, Cursor]) -> None:
    """Refuse fields that do not belong to the type, which is written or plain from them."""
    written = fields["type"].choice(tuple(_TYPES), "server type") if "type" in fields else None
    if written is None:
        if isinstance(cursor.value, dict) and ("command" in fields) == ("url" in fields):
            if "type" not in fields:
                cursor.fail("needs exactly one of 'command' and 'url'")
            return
        written = "streamable-http" if "url" in fields else "stdio"
    elif _TYPES[written] not in fields:
        cursor.fail(f"missing required field {_TYPES[written]!r}")
    for kind, own in _OWN_FIELDS.items():
        for key in own:
            if kind != written and key in fields:
                fields[key].fail(f"{key!r} belongs to a server of type {kind!r}", at="key")


def _check_reserved(fields: Mapping[str, Cursor]) -> None:
    for key in _keys(fields, "env"):
        if key in _OUR_VARIABLES:
            fields["env"].child(key).fail(
                f"{key} is always the server's private directory and can not be set", at="key"
            )
    for key in _keys(fields, "headers"):
        if _OUR_HEADERS.fullmatch(key):
            fields["headers"].child(key).fail(
                f"header {shown(key)} belongs to the protocol and can not be set", at="key"
            )


def _keys(fields: Mapping[str, Cursor], name: str) -> tuple[str, ...]:
    value = fields[name].value if name in fields else None
    return tuple(value) if isinstance(value, dict) else ()


def _values(
    fields: Mapping[str, Cursor],
    key: str,
    pattern: re.Pattern[str],
    what: str,
    variables: Mapping[str, object],
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the literal values, and the names of variables that others come from."""
    literals: dict[str, str] = {}
    references: dict[str, str] = {}
    if key in fields:
        for name, item in fields[key].members(pattern, what):
            if isinstance(item.value, dict):
                variable = _reference(item, variables)
                if variable is not None:
                    references[name] = variable
                continue
            if not isinstance(item.value, str):
                item.wrong_type('a string, or an object like {"var": NAME}')
                continue
            value = item.string(max_chars=_MAX_VALUE_CHARS, one_line=key == "headers")
            if value is not None and "\0" in value:
                item.fail("must not contain NUL")
            elif value is not None:
                literals[name] = value
    return MappingProxyType(literals), MappingProxyType(references)


def _reference(cursor: Cursor, variables: Mapping[str, object]) -> str | None:
    fields = cursor.fields(("var",), ("var",)) or {}
    name = fields["var"].string() if "var" in fields else None
    if name is not None and name not in variables:
        fields["var"].fail(f"unknown variable {shown(name)}{did_you_mean(name, variables)}")
        return None
    return name


def _is_plain(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "http" and parts.hostname not in _LOOPBACK
