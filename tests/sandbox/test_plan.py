"""Plans: pure data from profile, call and limits; equal inputs give equal keys."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from raw_exec.config import ProfileSpec, SandboxConfig
from raw_exec.errors import SandboxError
from raw_exec.limits import Limits
from raw_exec.sandbox import SandboxPlan, derive_plan, descriptor_plan

LIMITS = Limits()


def config(**profiles: ProfileSpec) -> SandboxConfig:
    return SandboxConfig("workspace", MappingProxyType(profiles), MappingProxyType({}))


def derive(spec: ProfileSpec, **changes: Any) -> SandboxPlan:
    values: dict[str, Any] = {
        "tool_identity": "local/t",
        "profile": "p",
        "cwd": "/srv/app",
        "config_directory": "/srv/conf",
        "home": "/home/me",
        "limits": LIMITS,
        **changes,
    }
    return derive_plan(config(p=spec), **values)


def test_profile_and_call_give_a_whole_plan() -> None:
    """Design §4: every field comes from the profile, the call's folders or the limits."""
    spec = ProfileSpec("p", read=("$CONFIG/shared", "/opt/x"), write=("$CWD",), processes="allowed")
    assert derive(spec) == SandboxPlan(
        profile="p",
        read=("/opt/x", "/srv/app", "/srv/conf/shared"),
        write=("/srv/app",),
        network="none",
        processes=True,
        tier="baseline",
        isolation="pooled",
        effects="declared",
        sandbox=True,
        memory_bytes=LIMITS.memory_bytes,
        scratch_bytes=LIMITS.scratch_bytes,
        warnings=(),
    )


@pytest.mark.parametrize(
    ("grant", "path"),
    [
        ("$CWD", "/srv/app"),
        ("$CWD/a/b", "/srv/app/a/b"),
        ("$HOME/.cache", "/home/me/.cache"),
        ("/a//b/./c", "/a/b/c"),
        ("//double", "/double"),
    ],
)
def test_variables_and_spellings_are_made_one_path(grant: str, path: str) -> None:
    """One path, one spelling: equal grants give one trust domain."""
    assert derive(ProfileSpec("p", read=(grant,))).read == (path,)


@pytest.mark.parametrize(
    ("grant", "changes"),
    [
        ("$CONFIG", {"config_directory": None}),
        ("$HOME/x", {"home": None}),
        ("$CWD", {"cwd": "relative"}),
        ("$CWD", {"cwd": "/srv/../etc"}),
        ("$OTHER", {}),
    ],
)
def test_variable_without_a_usable_value_is_refused(grant: str, changes: dict[str, Any]) -> None:
    """X24: never an empty prefix, which would be the root."""
    with pytest.raises(SandboxError) as caught:
        derive(ProfileSpec("p", read=(grant,)), **changes)
    assert (caught.value.code, caught.value.step) == ("sandbox_unavailable", "plan")


def test_unknown_profile_is_refused() -> None:
    """The registry resolved the name; if it is gone, nothing runs."""
    with pytest.raises(SandboxError) as caught:
        derive(ProfileSpec("p"), profile="other")
    assert caught.value.hint == "profiles: p"


@pytest.mark.parametrize(
    "change",
    [
        {"read": ("/a",)},
        {"write": ("/a",)},
        {"network": "host"},
        {"processes": "allowed"},
        {"tier": "cgroup"},
        {"isolation": "fresh"},
        {"sandbox": "none"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_key_changes_with_everything_that_matters(change: dict[str, Any]) -> None:
    """A worker is shared only between calls with the same rights."""
    spec = ProfileSpec("p")
    assert derive(spec).key == derive(spec).key
    assert derive(replace(spec, **change)).key != derive(spec).key


def test_key_does_not_depend_on_name_or_order_of_grants() -> None:
    """Two profiles that say the same are the same domain."""
    one = derive(ProfileSpec("p", read=("/a", "/b")))
    other = derive(ProfileSpec("q", read=("/b", "/a", "/b")))
    assert one.key == other.key
    assert derive(ProfileSpec("p"), limits=replace(LIMITS, memory_bytes=1 << 30)).key != one.key


def test_wide_grants_are_warned_about() -> None:
    """X24: allowed to the operator, never silent."""
    spec = ProfileSpec("p", read=("/",), write=("$HOME",), network="host", sandbox="none")
    assert derive(spec).warnings == (
        "profile 'p' runs tools without any confinement",
        "grants write on all of '/home/me'",
        "grants read on all of '/'",
        "grants the whole network, services on this host included",
    )


def test_descriptor_plan_grants_nothing() -> None:
    """Design §3: no writes, no network, no spawn."""
    plan = descriptor_plan(LIMITS)
    assert (plan.read, plan.write, plan.network, plan.processes, plan.sandbox) == (
        (),
        (),
        "none",
        False,
        True,
    )
