"""Hostile Markdown and Mermaid: what may be followed, rendered or only shown."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raw_exec.panels.markdown import Span, parse_inline, plain_markdown, safe_link
from raw_exec.panels.mermaid import mermaid_problem


@pytest.mark.parametrize(
    "url",
    ["http://a.b", "https://a.b/c?d=e#f", "HTTPS://a.b:8080/", "https://a.b/x(y)'z"],
)
def test_http_links_are_safe(url: str) -> None:
    """Contract: only http(s) links."""
    assert safe_link(url)


@pytest.mark.parametrize(
    "url",
    [
        *("", "a.b", "//a.b", "/path", "#x", "javascript:alert(1)", "JaVaScRiPt://a.b/%0aalert(1)"),
        *("data:text/html,x", "file:///etc/passwd", "vbscript:x", "mailto:a@b", "ftp://a.b"),
        *("http:a.b", "http:///a", "https://user@a.b", "https://a.b\\@c.d", "https://a.b/ c"),
        *("https://a.b/\x1b[0m", "https://a.b/<script>", 'https://a.b/"onclick=', " https://a.b"),
        *("https://a.b/\u202e", "https://a.b/" + "x" * 3000, "java\nscript:x"),
    ],
)
def test_other_links_are_not(url: str) -> None:
    """Nor those that only look like http to a person."""
    assert not safe_link(url)


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("plain", [Span("text", "plain")]),
        (
            "a [b](https://c.d) e",
            [Span("text", "a "), Span("link", "b", "https://c.d"), Span("text", " e")],
        ),
        ("[b](https://c.d 'title')", [Span("link", "b", "https://c.d")]),
        ("<https://c.d>", [Span("link", "https://c.d", "https://c.d")]),
        ("[b](javascript:x)", [Span("text", "b")]),
        ("[b]( JAVASCRIPT:x )", [Span("text", "b")]),
        ("<javascript:x>", [Span("text", "<javascript:x>")]),
        ("![alt](https://c.d/e.png)", [Span("image", "alt")]),
        ("![](file:///e.png)", [Span("image", "image")]),
        ("<img src=x onerror=y>", [Span("text", "<img src=x onerror=y>")]),
        ("`[b](https://c.d)`", [Span("code", "[b](https://c.d)")]),
        ("``a`b``", [Span("code", "a`b")]),
        ("`open", [Span("text", "`open")]),
        ("\\[b](https://c.d)", [Span("text", "[b](https://c.d)")]),
        ("[b](https://c.d/e_(f))", [Span("link", "b", "https://c.d/e_(f)")]),
        ("[b]", [Span("text", "[b]")]),
    ],
)
def test_spans(text: str, spans: list[Span]) -> None:
    """Contract: HTML shown as text, only http(s) links, images as alt text."""
    joined: list[Span] = []
    for span in parse_inline(text):
        if joined and joined[-1].kind == span.kind == "text":
            joined[-1] = Span("text", joined[-1].text + span.text)
        else:
            joined.append(span)
    assert joined == spans


def test_plain_text_shows_where_a_link_leads() -> None:
    """A label that names another address than the link's can't deceive in a terminal."""
    text = "[https://good.example](https://bad.example) ![x](y)\n```\n[a](https://b)\n```\n`c`"
    assert plain_markdown(text) == (
        "https://good.example <https://bad.example> [image: x]\n```\n[a](https://b)\n```\n`c`"
    )


@pytest.mark.parametrize("piece", ["[", "![", "[a](", "`", "``", "<https://", "\\", "[a](<", "(("])
def test_a_text_of_unfinished_markup_stays_text(piece: str) -> None:
    """16 KiB of the worst must come back whole; the suite's time limit sees to the rest."""
    text = piece * (16384 // len(piece))
    shown = plain_markdown(text)
    assert len(shown) >= len(text) // 2


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="[]()!<>`\\ ahtps:/.\n\"'", max_size=60))
def test_no_text_makes_a_link_that_is_not_safe(text: str) -> None:
    """Whatever the parser makes of it."""
    for span in parse_inline(text):
        assert span.kind != "link" or safe_link(span.url)
    plain_markdown(text)


@pytest.mark.parametrize(
    "source",
    [
        "graph TD\n  A-->B\n  B---C",
        "flowchart LR\n A[Text & more] -->|yes| B{x < y}",
        "sequenceDiagram\n Alice->>Bob: Hello\n Bob-->>Alice: Hi",
        "classDiagram\n Animal <|-- Duck\n class Shape {\n <<interface>>\n }",
        "graph TD\n A-->B\n linkStyle 0 stroke:#f00",
        "%% a comment\ngraph TD",
        "erDiagram\n DATA {\n string data\n }",
    ],
)
def test_ordinary_diagrams_may_be_rendered(source: str) -> None:
    """A check that refuses everything would pass the tests below."""
    assert mermaid_problem(source) is None


@pytest.mark.parametrize(
    "source",
    [
        "%%{init: {'securityLevel': 'loose'}}%%\ngraph TD",
        "graph TD\n%% {init: {}}",
        "---\nconfig:\n  securityLevel: loose\n---\ngraph TD",
        "\ufeff\n ---\ntitle: x\n---",
        'graph TD\n click A "https://a.b"',
        "graph TD\n A-->B; click A callback",
        'graph TD\n CLICK A href "x"',
        "sequenceDiagram\n link Alice: Home @ https://a.b",
        "sequenceDiagram\n links Alice: {}",
        "graph TD\n A[<img src=x onerror=y>]",
        "graph TD\n A[<<script>alert(1)</script>]",
        "graph TD\n A[x<br/>y]",
        "graph TD\n A[&lt;b&gt;]",
        "graph TD\n A[javascript:alert(1)]",
        "graph TD\n A[see //a.b]",
        'graph TD\n A@{ img: "x.png" }',
        "graph TD\n classDef x background:url(x)",
        'C4Context\n Person(a, "b", $link="x")',
    ],
)
def test_hostile_diagrams_are_not_rendered(source: str) -> None:
    """Contract: init directives, front matter, links and HTML are refused for rendering."""
    assert mermaid_problem(source)
