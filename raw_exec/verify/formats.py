"""Reports for machines that build software: JUnit XML, and GitHub's workflow commands.

Security: text of plugins is in both. In XML, characters that the format can't hold are
escaped as a person would see them. A workflow command is one line, in which ``%``, line breaks
and, in properties, ``:`` and ``,`` are encoded, so that a text can't end it or start another.
"""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence

from ..manifest.tree import MANIFEST_NAME
from ..text import escape_text
from .report import CaseReport, Finding, ToolReport, count_statuses

__all__ = ["render_github", "render_junit"]


def render_junit(tools: Sequence[ToolReport]) -> str:
    """Return a JUnit XML document: a suite per tool, a test case per case."""
    counts = count_statuses(tools)
    root = ET.Element(
        "testsuites",
        name="raw tools verify",
        tests=str(sum(counts.values())),
        failures=str(counts["failed"]),
        errors=str(counts["invalid"]),
        time=_seconds(sum(case.elapsed_ms for tool in tools for case in tool.cases)),
    )
    for tool in tools:
        own = count_statuses([tool])
        suite = ET.SubElement(
            root,
            "testsuite",
            name=_xml(tool.target),
            tests=str(sum(own.values())),
            failures=str(own["failed"]),
            errors=str(own["invalid"]),
            skipped="0",
            time=_seconds(sum(case.elapsed_ms for case in tool.cases)),
        )
        if tool.problems:
            element = _testcase(suite, tool, "(load)", tool.folder, 0.0)
            _problems(element, "error", tool.problems)
        for case in tool.cases:
            _case(suite, tool, case)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ET.Element, tool: ToolReport, case: CaseReport) -> None:
    element = _testcase(suite, tool, case.name, case.path, case.elapsed_ms)
    if case.status != "passed":
        _problems(element, "failure" if case.status == "failed" else "error", case.failures)
    lines = [f"warning: {_located(item)}" for item in case.warnings]
    lines += [str(change) for change in case.changes if change.visible]
    if lines:
        ET.SubElement(element, "system-out").text = _xml("\n".join(lines))
    printed = "".join(f"[{name}] {text}\n" for name, text in case.logs.items() if text)
    if printed:
        ET.SubElement(element, "system-err").text = _xml(printed)


def _testcase(suite: ET.Element, tool: ToolReport, name: str, file: str, ms: float) -> ET.Element:
    return ET.SubElement(
        suite,
        "testcase",
        classname=_xml(tool.target),
        name=_xml(name),
        file=_xml(file),
        time=_seconds(ms),
    )


def _problems(element: ET.Element, tag: str, findings: Sequence[Finding]) -> None:
    first = findings[0]
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    item = ET.SubElement(element, tag, type=first.kind, message=_xml(first.message + more))
    item.text = _xml("\n".join(_located(finding) for finding in findings))


def _located(finding: Finding) -> str:
    place = f"{finding.line}:{finding.column}: " if finding.line is not None else ""
    return f"{place}{finding.kind}: {finding.message}"


def _seconds(ms: float) -> str:
    return f"{ms / 1000:.3f}"


def _xml(text: str) -> str:
    return escape_text(text)


# ---------------------------------------------------------------- GitHub


def render_github(tools: Sequence[ToolReport]) -> list[str]:
    """Return workflow commands, one line each: an annotation per failure and warning."""
    base = os.environ.get("GITHUB_WORKSPACE") or os.getcwd()
    return list(_annotations(tools, base))


def _annotations(tools: Sequence[ToolReport], base: str) -> Iterator[str]:
    for tool in tools:
        manifest = os.path.join(tool.folder, MANIFEST_NAME)
        for problem in tool.problems:
            yield _annotation("error", manifest, f"{tool.target} can't be loaded", problem, base)
        for text in tool.warnings:
            yield _annotation("warning", manifest, tool.target, Finding("tool", text), base)
        for case in tool.cases:
            title = f"{tool.target}: case {case.name}"
            for finding in case.failures:
                yield _annotation("error", case.path, title, finding, base)
            for finding in case.warnings:
                yield _annotation("warning", case.path, title, finding, base)


def _annotation(command: str, path: str, title: str, finding: Finding, base: str) -> str:
    inside = os.path.relpath(path, base)
    properties = {"file": path if inside.startswith("..") else inside}
    if finding.line is not None:
        properties["line"] = str(finding.line)
        properties["col"] = str(finding.column)
    properties["title"] = title
    shown = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{command} {shown}::{_data(finding.message)}"


def _data(text: str) -> str:
    """Encode the message of a command; what no terminal should get is escaped before."""
    shown = escape_text(text)
    return shown.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
