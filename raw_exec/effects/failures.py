"""What a descriptor call can end in, other than a value."""

from __future__ import annotations

from typing import Literal, TypeAlias

from ..errors import RawExecError

__all__ = ["DescriptorFailed", "EngineUnsupported", "FailureCode", "safe_text"]

FailureCode: TypeAlias = Literal[
    "threw", "deadline", "trap", "not_synchronous", "bad_result", "too_large", "memory"
]

MAX_MESSAGE_CHARS = 2000


class DescriptorFailed(RawExecError):
    """A descriptor gave no answer; the handler must not run.

    Args:
        code: ``threw``: it raised an exception, at import or in the call.
            ``deadline``: it ran out of wall time. ``trap``: the engine stopped it, for
            example because it recursed without end. ``not_synchronous``: it returned a
            promise or another thenable. ``bad_result``: not the kind of value the
            contract asks for. ``too_large``: arguments or result over the limit.
            ``memory``: it needed more memory than it may have.
        message: One line; text of the plugin in it is bounded and has no control characters.
    """

    def __init__(
        self, code: FailureCode, message: str, *, where: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(code, safe_text(message), where=where, hint=hint)


class EngineUnsupported(RawExecError):
    """A module graph cannot load in this engine; a descriptor worker may manage.

    Args:
        message: The reason, as ``raw tools check`` shows it.
    """

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__("engine_unsupported", safe_text(message), where=where, hint=hint)


def safe_text(text: str, limit: int = MAX_MESSAGE_CHARS) -> str:
    """Bound a plugin's text and make every character in it visible.

    Line ends become spaces; control characters, format characters (bidi controls among
    them), private-use code points and lone surrogates become ``\\u{hex}``.
    """
    cut = len(text) - limit
    if cut > 0:
        text = text[:limit]
    if not (text.isascii() and text.isprintable()):
        text = "".join(_visible(char) for char in text)
    return f"{text}… [truncated {cut} characters]" if cut > 0 else text


def _visible(char: str) -> str:
    if char in "\r\n\t":
        return " "
    return char if char.isprintable() else f"\\u{{{ord(char):x}}}"
