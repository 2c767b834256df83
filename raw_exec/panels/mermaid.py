"""Which Mermaid sources may be handed to a renderer.

A renderer turns source into markup that a browser runs. Whatever configures it, links, loads
or is markup itself is refused here; the source is then shown as text.

Security: this reads text and knows no grammar, so it refuses too much rather than too little
(``<br>`` in a label, for one). It does not replace the renderer's own strict mode.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["mermaid_problem"]

_STEREOTYPE = re.compile(r"<<[A-Za-z][A-Za-z0-9_ -]*>>")
"""``<<interface>>`` of class diagrams: two angle brackets around a word are no markup."""

_RULES: Final = (
    (re.compile(r"\A[\s\ufeff]*---", re.ASCII), "front matter configures the renderer"),
    (re.compile(r"%%\s*\{"), "an init directive configures the renderer"),
    (re.compile(r"[<&][A-Za-z/!?#]"), "HTML is not rendered"),
    (re.compile(r"(?im)(?:^|;)\s*(?:click|callback|links?|href)\b"), "links are not rendered"),
    (re.compile(r"(?i)\bhref\b|\$link\b"), "links are not rendered"),
    (re.compile(r"(?i)\b[a-z][a-z0-9+.-]{1,20}:\s*//|//[a-z0-9]"), "links are not rendered"),
    (
        re.compile(r"(?i)\b(?:(?:javascript|vbscript)\s*:|data:[a-z]+/|(?:blob|file):)"),
        "links are not rendered",
    ),
    (re.compile(r"(?i)url\s*\(|@import|\bimg\s*:"), "nothing is loaded while rendering"),
)


def mermaid_problem(source: str) -> str | None:
    """Return why a source must not be rendered, or ``None`` when it may be."""
    text = _STEREOTYPE.sub("", source)
    return next((why for pattern, why in _RULES if pattern.search(text)), None)
