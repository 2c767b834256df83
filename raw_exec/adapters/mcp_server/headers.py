"""What HTTP headers must say about the body of a stateless request. Pure.

A proxy decides by headers what a request may do; so a header that says something else than
the body is refused, as is one that is there twice, which two readers would read differently.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from .eras import CLIENT_CAPABILITIES, HEADER_MISMATCH, INVALID_PARAMS, PROTOCOL_VERSION, RpcError

__all__ = [
    "Headers",
    "check_param_headers",
    "check_routing_headers",
    "decode_value",
    "envelope",
    "header_problem",
    "mirrored_properties",
]

_ANNOTATION: Final = "x-mcp-header"
_PARAM_PREFIX: Final = "mcp-param-"
_ROUTING: Final = ("mcp-protocol-version", "mcp-method", "mcp-name")
_NAMED_BY: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_ENCODED = re.compile(r"=\?base64\?(.*)\?=")
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_DECIMAL = re.compile(r"(-?[0-9]{1,400})(?:\.0*)?")
_MIRRORED_TYPES: Final = ("string", "integer", "boolean")
_MAP_KEYWORDS: Final = ("patternProperties", "dependentSchemas", "$defs", "definitions")


class Headers:
    """The header lines of one request.

    Args:
        lines: Names in any case, values, in order.
    """

    def __init__(self, lines: Iterable[tuple[str, str]]) -> None:
        self._lines: dict[str, list[str]] = {}
        for name, value in lines:
            self._lines.setdefault(name.lower(), []).append(value)

    def get(self, name: str) -> str | None:
        """Return the first value of a header, by its name in lower case."""
        values = self._lines.get(name)
        return values[0] if values else None

    def all(self, name: str) -> list[str]:
        """Return every value of a header, by its name in lower case."""
        return self._lines.get(name, [])

    def one(self, name: str) -> str | None:
        """Return the value of a header that may be there once.

        Raises:
            RpcError: It is there twice.
        """
        values = self._lines.get(name, [])
        if len(values) > 1:
            raise _mismatch(f"the header {name} is there {len(values)} times")
        return values[0] if values else None


def check_routing_headers(headers: Headers, method: str, params: Mapping[str, Any]) -> None:
    """Refuse a request whose headers name another version, method or tool than its body.

    Raises:
        RpcError: They do, or one of them is missing, or the body does not say how it speaks.
    """
    version, named_method, name = (headers.one(header) for header in _ROUTING)
    meta = envelope(params)
    if version is None or version != meta[PROTOCOL_VERSION]:
        raise _mismatch("the header mcp-protocol-version is not the version in the body")
    if named_method != method:
        raise _mismatch("the header mcp-method is not the method in the body")
    field = _NAMED_BY.get(method)
    if field is None:
        return
    wanted = params.get(field)
    if wanted is not None and decode_value(name) != wanted:
        raise _mismatch(f"the header mcp-name is not the {field} in the body")


def envelope(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``_meta`` of a stateless request, which says how it speaks.

    Raises:
        RpcError: It does not.
    """
    meta = params.get("_meta")
    if not isinstance(meta, dict) or not {PROTOCOL_VERSION, CLIENT_CAPABILITIES} <= meta.keys():
        message = f"params._meta must have {PROTOCOL_VERSION!r} and {CLIENT_CAPABILITIES!r}"
        raise RpcError(INVALID_PARAMS, message)
    return meta


def decode_value(value: str | None) -> str | None:
    """Return what a header value means; ``None`` when it is encoded and broken."""
    found = None if value is None else _ENCODED.fullmatch(value)
    if found is None:
        return value
    try:
        data = base64.b64decode(found[1], validate=True)
        # Bits that no encoder writes would let two values mean the same.
        if base64.b64encode(data).decode("ascii") != found[1]:
            return None
        return data.decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return None


# ---------------------------------------------------------------- arguments in headers


def header_problem(schema: Any) -> str | None:
    """Say what is wrong with the ``x-mcp-header`` annotations of an input schema, if anything.

    A client must not use a tool with a wrong one.
    """
    seen: dict[str, str] = {}
    for path, node in _schemas(schema):
        if _ANNOTATION not in node:
            continue
        if not path:
            return f"{_ANNOTATION} stands where no chain of 'properties' leads"
        where = "/properties/" + "/properties/".join(path)
        token, kind = node[_ANNOTATION], node.get("type")
        if not isinstance(token, str) or _TOKEN.fullmatch(token) is None:
            return f"{where}: {_ANNOTATION} must be the name of a header"
        if kind not in _MIRRORED_TYPES:
            return f"{where}: {_ANNOTATION} needs the type {', '.join(_MIRRORED_TYPES)}"
        if token.lower() in seen:
            return f"{where}: {_ANNOTATION} {token!r:.80} is taken by {seen[token.lower()]}"
        seen[token.lower()] = where
    return None


def mirrored_properties(schema: Any) -> dict[tuple[str, ...], tuple[str, str]]:
    """Return header token and type by the path of a property, for a schema without problems."""
    return {
        path: (node[_ANNOTATION], node["type"])
        for path, node in _schemas(schema)
        if path and _ANNOTATION in node
    }


def check_param_headers(
    mirrored: Mapping[tuple[str, ...], tuple[str, str]], arguments: Any, headers: Headers
) -> None:
    """Refuse a call whose ``Mcp-Param-*`` headers say something else than its arguments.

    Raises:
        RpcError: ``HEADER_MISMATCH``.
    """
    for path, (token, kind) in mirrored.items():
        name = _PARAM_PREFIX + token.lower()
        sent = headers.one(name)
        value = _value_at(arguments, path)
        written = _written(value)
        if written is None:
            if sent is not None:
                raise _mismatch(f"the header {name} is there, its argument is not")
            continue
        if sent is None:
            raise _mismatch(f"the header {name} is missing, its argument is there")
        decoded = decode_value(sent)
        if decoded != written and not (kind == "integer" and _same_integer(decoded, value)):
            raise _mismatch(f"the header {name} is not the argument {'.'.join(path)!r:.80}")


def _same_integer(text: str | None, value: Any) -> bool:
    found = None if text is None else _DECIMAL.fullmatch(text)
    if found is None or isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return int(found[1]) == value


def _written(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else None


def _value_at(value: Any, path: Sequence[str]) -> Any:
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def _mismatch(message: str) -> RpcError:
    return RpcError(HEADER_MISMATCH, message)


def _schemas(root: Any) -> Iterator[tuple[tuple[str, ...] | None, Mapping[str, Any]]]:
    """Yield every schema with the properties that lead to it; ``None`` where others do too."""
    stack: list[tuple[tuple[str, ...] | None, Any]] = [((), root)]
    while stack:
        path, node = stack.pop()
        if not isinstance(node, dict):
            continue
        yield path, node
        for keyword, value in node.items():
            if keyword == "properties" and isinstance(value, dict):
                for name, child in value.items():
                    stack.append((None if path is None else (*path, name), child))
            elif keyword in _MAP_KEYWORDS and isinstance(value, dict):
                stack.extend((None, child) for child in value.values())
            elif keyword not in ("default", "examples", "const", "enum"):
                children = value if isinstance(value, list) else [value]
                stack.extend((None, child) for child in children if isinstance(child, dict))
