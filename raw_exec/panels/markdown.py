"""Markdown of panels, as far as it is safe: links, images and code; HTML is only text.

One pass from left to right over the text; what is not a complete link, image or code span is
text. Every step looks a bounded number of characters ahead, so a text of brackets only costs
no more than any other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["Span", "parse_inline", "plain_markdown", "safe_link"]

_MAX_URL_CHARS = 2048

SpanKind: TypeAlias = Literal["text", "code", "link", "image"]

_SAFE_LINK = re.compile(r"https?://[^\s/?#<>\"'`\\@]+(?:[/?#][^\s<>\"`\\]*)?", re.IGNORECASE)
_CODE = re.compile(r"(`{1,8})(?!`)")
_LABEL = re.compile(r"\[((?:[^\[\]\\\n]|\\.){0,500}+)\]")
_TARGET = re.compile(
    r"\(\s{0,8}<?([^\s<>()]{0,2048}+(?:\([^\s<>()]{0,200}+\)[^\s<>()]{0,200}+)?)>?"
    r"(?:\s{1,8}(?:\"[^\"\n]{0,200}+\"|'[^'\n]{0,200}+'))?\s{0,8}\)"
)
_AUTOLINK = re.compile(r"<(https?://[^\s<>]{1,2048}+)>", re.IGNORECASE)
_NEXT = re.compile(r"[`\[!<\\]")
_ESCAPABLE = "\\`*_{}[]<>()#+-.!|~"


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a text.

    Args:
        text: What to show: of a link its label, of an image its alternative text.
        url: Where a link leads: http or https only. Of an image it is not kept.
    """

    kind: SpanKind
    text: str
    url: str = ""


def safe_link(url: str) -> bool:
    """Whether a link may be followed: http or https, with a host, without user or blanks."""
    return (
        len(url) <= _MAX_URL_CHARS and url.isprintable() and _SAFE_LINK.fullmatch(url) is not None
    )


def parse_inline(text: str) -> tuple[Span, ...]:
    """Split a text into spans. A link that is not safe becomes its label, as text."""
    out: list[Span] = []
    plain: list[str] = []
    unclosed: set[str] = set()
    at = 0

    def end_text() -> None:
        if plain:
            out.append(Span("text", "".join(plain)))
            plain.clear()

    while at < len(text):
        found = _NEXT.search(text, at)
        start = len(text) if found is None else found.start()
        plain.append(text[at:start])
        if found is None:
            break
        at, char = start, text[start]
        if char == "\\" and at + 1 < len(text) and text[at + 1] in _ESCAPABLE:
            plain.append(text[at + 1])
            at += 2
            continue
        span, after = _span_at(text, at, unclosed)
        if span is None:
            plain.append(text[at:after])
        elif span.kind == "text":
            plain.append(span.text)
        else:
            end_text()
            out.append(span)
        at = after
    end_text()
    return tuple(span for span in out if span.text or span.url)


def _span_at(text: str, at: int, unclosed: set[str]) -> tuple[Span | None, int]:
    """Return the span that begins here, if one does, and where to go on."""
    char = text[at]
    if char == "`":
        run = _CODE.match(text, at)
        if run is None:
            while at < len(text) and text[at] == "`":
                at += 1
            return None, at
        ticks = run[1]
        end = -1 if ticks in unclosed else text.find(ticks, run.end())
        if end < 0:
            # Looked for once: a text of single ticks is not searched again and again.
            unclosed.add(ticks)
            return None, run.end()
        return Span("code", text[run.end() : end]), end + len(ticks)
    if char == "<":
        link = _AUTOLINK.match(text, at)
        if link is not None and safe_link(link[1]):
            return Span("link", link[1], link[1]), link.end()
        return None, at + 1
    is_image = char == "!"
    label = _LABEL.match(text, at + is_image)
    target = _TARGET.match(text, label.end()) if label is not None else None
    if label is None or target is None:
        return None, at + 1
    shown, url = label[1].replace("\\", ""), target[1]
    if is_image:
        return Span("image", shown or "image"), target.end()
    if safe_link(url):
        return Span("link", shown or url, url), target.end()
    return Span("text", shown), target.end()


def plain_markdown(text: str) -> str:
    """Return a text for a terminal: links with their address, images as their alt text.

    The result is not escaped yet.
    """
    return "".join(_plain(span) for span in _outside_fences(text))


def _plain(span: Span) -> str:
    if span.kind == "code":
        return f"`{span.text}`"
    if span.kind == "image":
        return f"[image: {span.text}]"
    if span.kind == "link" and span.text != span.url:
        return f"{span.text} <{span.url}>"
    return span.text


def _outside_fences(text: str) -> Sequence[Span]:
    """Parse all but fenced code, which is kept as it is."""
    out: list[Span] = []
    pending: list[str] = []
    fence = ""
    for line in text.splitlines(keepends=True):
        mark = line.lstrip(" ")[:3]
        is_fence = mark in ("```", "~~~") and (not fence or mark == fence)
        if is_fence or fence:
            out.extend(parse_inline("".join(pending)))
            pending.clear()
            out.append(Span("text", line))
            if is_fence:
                fence = "" if fence else mark
        else:
            pending.append(line)
    out.extend(parse_inline("".join(pending)))
    return out
