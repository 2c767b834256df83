"""Text from plugins and models, made safe to show to a person."""

from __future__ import annotations

__all__ = ["escape_text"]


def escape_text(text: str, *, keep_newlines: bool = True) -> str:
    """Make text safe to show: control, bidi, zero-width and other format characters escaped.

    Args:
        text: Anything, for example from a plugin or a model.
        keep_newlines: Leave ``\\n`` and ``\\t`` as they are.
    """
    if text.isascii() and text.isprintable():
        return text
    out = []
    for char in text:
        if char.isprintable() or (keep_newlines and char in "\n\t"):
            out.append(char)
        else:
            code = ord(char)
            out.append(f"\\x{code:02x}" if code < 0x100 else f"\\u{{{code:x}}}")
    return "".join(out)
