"""Reading the tool calls in what a model provider sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ...errors import ConfigError
from ...jsontext import JsonTextError, parse
from ...profiles import Profile

__all__ = ["ProviderCall", "read_calls"]

_MAX_ARGUMENT_BYTES: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ProviderCall:
    """One call that a model asks for.

    Args:
        id: The provider's ID of it; ``""`` where it gives none.
        name: The name that the model used.
        arguments: As the model sent them, parsed.
        problem: Why they could not be read; then ``arguments`` means nothing.
    """

    id: str
    name: str
    arguments: Any
    problem: str | None = None


def read_calls(profile: Profile, message: Any) -> tuple[ProviderCall, ...]:
    """Return the tool calls of a message in order; none when it has none.

    Args:
        profile: Whose message it is.
        message: A response, a message, a list of blocks, or one call: as JSON data, or as an
            object of the provider's own SDK.

    Raises:
        ConfigError: ``message_invalid``: it is none of that provider's.
    """
    readers = {
        "anthropic": _anthropic,
        "openai": _openai,
        "openai-responses": _responses,
        "gemini": _gemini,
        "mcp": _mcp,
    }
    try:
        if message is None:
            raise TypeError("there is none")
        return tuple(readers[profile.provider](_plain(message)))
    except (KeyError, TypeError, AttributeError, IndexError) as exc:
        raise ConfigError(
            "message_invalid",
            f"this is no message of {profile.provider}: {type(exc).__name__} {exc!s:.100}",
        ) from exc


def _plain(value: Any) -> Any:
    """Turn objects of an SDK, which are pydantic models, into JSON data."""
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    dump = getattr(value, "model_dump", None)
    return value if dump is None else dump(mode="json", by_alias=True, warnings=False)


def _typed(blocks: Any, kind: str) -> Iterator[dict[str, Any]]:
    if isinstance(blocks, str) or blocks is None:
        return  # text only
    for block in blocks:
        if _plain(block).get("type") == kind:
            yield _plain(block)


def _anthropic(message: Any) -> Iterable[ProviderCall]:
    if isinstance(message, Mapping):
        message = [message] if message.get("type") == "tool_use" else message["content"]
    for block in _typed(message, "tool_use"):
        yield ProviderCall(block["id"], block["name"], block["input"])


def _openai(message: Any) -> Iterable[ProviderCall]:
    if isinstance(message, list):
        calls = message
    elif "choices" in message:
        calls = message["choices"][0]["message"].get("tool_calls") or []
    elif "function" in message:
        calls = [message]
    else:
        calls = message.get("tool_calls") or []
    for call in _typed(calls, "function"):
        yield _of_text(call["id"], call["function"])


def _responses(message: Any) -> Iterable[ProviderCall]:
    if isinstance(message, Mapping):
        message = [message] if message.get("type") == "function_call" else message["output"]
    for item in _typed(message, "function_call"):
        yield _of_text(item["call_id"], item)


def _gemini(message: Any) -> Iterable[ProviderCall]:
    if isinstance(message, list):
        parts = message
    elif "candidates" in message:
        content = message["candidates"][0].get("content") or {}
        parts = content.get("parts") or []
    else:
        parts = message.get("parts") or ([message] if _gemini_call(message) else [])
    for part in parts:
        call = _gemini_call(_plain(part))
        if call is not None:
            arguments = call.get("args")
            yield ProviderCall(
                call.get("id") or "", call["name"], {} if arguments is None else arguments
            )


def _gemini_call(part: Mapping[str, Any]) -> Any:
    return part.get("functionCall") or part.get("function_call")


def _mcp(message: Any) -> Iterable[ProviderCall]:
    for item in message if isinstance(message, list) else [message]:
        params = item.get("params", item)
        arguments = params.get("arguments")
        name = params["name"]
        call_id = item.get("id") if "params" in item else None
        yield ProviderCall(
            "" if call_id is None else str(call_id), name, {} if arguments is None else arguments
        )


def _of_text(call_id: str, call: Mapping[str, Any]) -> ProviderCall:
    """Read arguments that are sent as text, which a model may have cut or got wrong."""
    text = call["arguments"]
    if not text.strip():
        return ProviderCall(call_id, call["name"], {})
    try:
        value = parse(text, max_bytes=_MAX_ARGUMENT_BYTES)
    except JsonTextError as exc:
        return ProviderCall(call_id, call["name"], None, f"the arguments are not JSON: {exc}")
    return ProviderCall(call_id, call["name"], value)
