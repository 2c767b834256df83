"""Reports: enforcement as the launcher says it, and answers of ``explain``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from raw_exec.errors import InternalError
from raw_exec.limits import Limits
from raw_exec.sandbox import (
    Enforcement,
    PathVerdict,
    RuntimeFiles,
    descriptor_plan,
    explain_network,
    explain_path,
    explain_plan,
    parse_enforcement,
)

RAW: dict[str, Any] = {
    "tier": "namespaces",
    "landlock": 7,
    "seccomp": True,
    "namespaces": ["user", "mount", "pid"],
    "cgroup": None,
    "rlimits": ["core", "data"],
    "no_new_privs": True,
    "capabilities_dropped": True,
    "uid": 0,
    "network": "none",
    "processes": "none",
    "view": False,
    "sessions": 0,
}
PLAN = replace(descriptor_plan(Limits()), profile="p", write=("/w",), read=("/r", "/r/deep", "/w"))


def test_enforcement_round_trips_and_is_strict() -> None:
    """A field more or less means that supervisor and launcher differ: our fault."""
    enforcement = parse_enforcement(RAW)
    assert enforcement.as_dict() == RAW
    for bad in ({**RAW, "extra": 1}, {k: v for k, v in RAW.items() if k != "uid"}):
        with pytest.raises(InternalError):
            parse_enforcement(bad)


def test_lines_name_the_gaps_of_the_tier() -> None:
    """Honest: what Landlock alone leaves open is said."""
    lines = replace(parse_enforcement(RAW), namespaces=(), landlock=2, tier="baseline").lines()
    assert any("existence and mode of other files" in line for line in lines)
    assert any("truncating" in line for line in lines)
    assert not any("existence" in line for line in parse_enforcement(RAW).lines())
    allowed = replace(parse_enforcement(RAW), processes="allowed")
    assert "new processes: allowed" in allowed.lines()
    capped = replace(allowed, sessions=16)
    assert "new processes: allowed, in 16 sessions at most" in capped.lines()
    open_ = Enforcement("none", 0, False, (), None, (), False, False, 0, "host", "allowed")
    assert open_.lines() == ("not confined: the operator turned the sandbox off for this tool",)


@pytest.mark.parametrize(
    ("path", "read", "write", "grant"),
    [
        ("/w", True, True, "/w"),
        ("/w/a/../b", True, True, "/w"),
        ("/r/deep/x", True, False, "/r/deep"),
        ("/rx", False, False, None),
        ("/w/../etc/passwd", False, False, None),
        ("/", False, False, None),
        ("/node/bin", True, False, "/node"),
    ],
)
def test_explain_names_the_deciding_grant(
    path: str, read: bool, write: bool, grant: str | None
) -> None:
    """``raw tools explain --path``: allowed or not, and by which line."""
    verdict = explain_path(PLAN, path, runtime=RuntimeFiles("node", ("/node",), ()))
    assert (verdict.read, verdict.write, verdict.grant) == (read, write, grant)
    assert verdict.reason


def test_explain_of_an_unconfined_plan_says_so() -> None:
    """No grant is named where none is needed."""
    plan = replace(PLAN, sandbox=False)
    assert explain_path(plan, "/etc/x") == PathVerdict(
        "/etc/x", True, True, None, "the profile turns the sandbox off"
    )
    assert "whole network" in explain_network(plan)
    assert explain_network(PLAN) == "no sockets can be created"


def test_explained_plan_is_json_data_with_every_grant() -> None:
    """``raw tools explain --json``."""
    assert explain_plan(PLAN) == {
        "profile": "p",
        "confined": True,
        "tier": "baseline",
        "isolation": "pooled",
        "effects": "declared",
        "commit": "success",
        "changes": "changed in place; what a tool describes is not checked",
        "copy_bytes": 0,
        "read": ["/r", "/r/deep", "/w"],
        "write": ["/w"],
        "network": "none",
        "processes": "none",
        "memory_bytes": Limits().memory_bytes,
        "scratch_bytes": 1024 * 1024,
        "warnings": [],
        "key": PLAN.key,
    }
