"""Sandbox profiles as configured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from raw_exec.config import Config, ProfileSpec, load_config
from raw_exec.errors import ConfigError


def load(folder: Path, sandbox: Any) -> Config:
    path = folder / "config.json"
    path.write_text(json.dumps({"sandbox": sandbox}))
    path.chmod(0o600)
    return load_config(path, environ={})


def pointers(folder: Path, sandbox: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(folder, sandbox)
    return [problem.pointer for problem in caught.value.problems]


def test_built_in_profiles_are_there_without_configuration(tmp_path: Path) -> None:
    """design: ``workspace`` for everything, ``shell`` for the two that start processes."""
    sandbox = load(tmp_path, {}).sandbox
    assert dict(sandbox.profiles) == {
        "workspace": ProfileSpec("workspace", read=("$CWD",), write=("$CWD",)),
        "shell": ProfileSpec("shell", read=("$CWD",), write=("$CWD",), processes="allowed"),
        "readonly": ProfileSpec("readonly", read=("$CWD",)),
    }
    assert sandbox.profile_name("local/x") == "workspace"
    assert sandbox.profile_name("builtin/bash") == "shell"
    assert sandbox.profile_name("builtin/process") == "shell"


def test_overriding_a_built_in_changes_what_extends_it(tmp_path: Path) -> None:
    """Ours: only the fields written are replaced."""
    profiles = load(tmp_path, {"profiles": {"workspace": {"network": "loopback"}}}).sandbox.profiles
    assert profiles["workspace"] == ProfileSpec(
        "workspace", read=("$CWD",), write=("$CWD",), network="loopback"
    )
    assert profiles["shell"].network == "loopback"


def test_a_new_profile_starts_from_nothing(tmp_path: Path) -> None:
    """Fail closed: what is not written is not granted."""
    profiles = load(tmp_path, {"profiles": {"p": {}, "q": {"extends": "shell"}}}).sandbox.profiles
    assert profiles["p"] == ProfileSpec("p")
    assert profiles["q"] == ProfileSpec("q", read=("$CWD",), write=("$CWD",), processes="allowed")


def test_grants_have_one_spelling(tmp_path: Path) -> None:
    """Attack corpus X24: equal grants look equal."""
    written = ["$CWD/./a//b/", "/tmp/x/.", "data", ".", "$HOME/x", "/tmp//x"]
    profile = load(tmp_path, {"profiles": {"p": {"read": written}}}).sandbox.profiles["p"]
    assert profile.read == ("$CWD/a/b", "/tmp/x", "$CONFIG/data", "$CONFIG", "$HOME/x")


@pytest.mark.parametrize(
    "path",
    [
        "",
        "~",
        "~/x",
        "../x",
        "/tmp/..",
        "$CWD/../x",
        "$FOO",
        "$CWDx",
        "a/$CWD",
        "/tmp/*",
        "x\0",
        "a\nb",
    ],
)
@pytest.mark.parametrize("access", ["read", "write"])
def test_a_grant_that_is_not_what_it_looks_like_is_refused(
    tmp_path: Path, access: str, path: str
) -> None:
    """Attack corpus X24."""
    sandbox = {"profiles": {"p": {access: [path]}}}
    assert pointers(tmp_path, sandbox) == [f"/sandbox/profiles/p/{access}/0"]


@pytest.mark.parametrize(
    "path",
    ["/", "//", "/./", "/proc", "/proc/self", "/dev", "/sys/x", "/etc/cron.d", "/usr", "/run/x"],
)
def test_system_folders_are_not_writable_but_may_be_readable(tmp_path: Path, path: str) -> None:
    """Attack corpus X24: the pair of each other."""
    assert pointers(tmp_path, {"profiles": {"p": {"write": [path]}}}) == [
        "/sandbox/profiles/p/write/0"
    ]
    load(tmp_path, {"profiles": {"p": {"read": [path]}}})


def test_wide_grants_and_no_sandbox_are_warned_about(tmp_path: Path) -> None:
    """The operator wrote it; it is said back."""
    config = load(
        tmp_path, {"profiles": {"p": {"read": ["/"], "write": ["$HOME"]}, "q": {"sandbox": "none"}}}
    )
    assert config.warnings == (
        "sandbox profile 'p' grants read on all of '/'",
        "sandbox profile 'p' grants write on all of '$HOME'",
        "sandbox profile 'q' runs tools without any confinement",
    )
    assert config.sandbox.profiles["q"].sandbox == "none"


@pytest.mark.parametrize(
    ("sandbox", "expected"),
    [
        ([], ["/sandbox"]),
        ({"default": "x"}, ["/sandbox/default"]),
        ({"tools": {"local/x": "x"}}, ["/sandbox/tools/local~1x"]),
        ({"tools": {"": "shell"}}, ["/sandbox/tools/"]),
        ({"profiles": {"P": {}}}, ["/sandbox/profiles/P"]),
        ({"profiles": {"p": {"extends": "x"}}}, ["/sandbox/profiles/p/extends"]),
        ({"profiles": {"p": {"extends": "p"}}}, ["/sandbox/profiles/p"]),
        (
            {"profiles": {"p": {"extends": "q"}, "q": {"extends": "p"}}},
            ["/sandbox/profiles/p", "/sandbox/profiles/q"],
        ),
        ({"profiles": {"workspace": {"extends": "shell"}}}, ["/sandbox/profiles/workspace"]),
        ({"profiles": {"p": {"network": "allowlist"}}}, ["/sandbox/profiles/p/network"]),
        ({"profiles": {"p": {"network": ["a:1"]}}}, ["/sandbox/profiles/p/network"]),
        ({"profiles": {"p": {"effects": "kept"}}}, ["/sandbox/profiles/p/effects"]),
        (
            {"profiles": {"p": {"effects": "observed", "isolation": "pooled"}}},
            ["/sandbox/profiles/p/isolation"],
        ),
        (
            {
                "profiles": {
                    "p": {"isolation": "pooled"},
                    "q": {"extends": "p", "effects": "enforced"},
                }
            },
            ["/sandbox/profiles/q/effects"],
        ),
        (
            {"profiles": {"p": {"effects": "enforced", "sandbox": "none"}}},
            ["/sandbox/profiles/p/sandbox"],
        ),
        ({"profiles": {"p": {"commit": "always"}}}, ["/sandbox/profiles/p/commit"]),
        ({"profiles": {"p": {"copy_bytes": 1}}}, ["/sandbox/profiles/p/copy_bytes"]),
        (
            {"profiles": {"p": {"effects": "observed", "copy_bytes": -1}}},
            ["/sandbox/profiles/p/copy_bytes"],
        ),
        (
            {"profiles": {"p": {"effects": "enforced", "commit": "always"}}},
            ["/sandbox/profiles/p/commit"],
        ),
        ({"profiles": {"p": {"sandbox": False}}}, ["/sandbox/profiles/p/sandbox"]),
        ({"profiles": {"p": {"tier": "best"}}}, ["/sandbox/profiles/p/tier"]),
        ({"profiles": {"p": {"read": "$CWD"}}}, ["/sandbox/profiles/p/read"]),
    ],
)
def test_each_wrong_field_is_refused_at_its_place(
    tmp_path: Path, sandbox: Any, expected: list[str]
) -> None:
    """What can not be enforced is refused at load, never ignored."""
    assert pointers(tmp_path, sandbox) == expected


def test_an_exact_identity_wins_then_the_last_glob_then_the_built_in_mapping(
    tmp_path: Path,
) -> None:
    """Ours: rule 3 of the module."""
    sandbox = load(
        tmp_path,
        {
            "default": "readonly",
            "tools": {"local/x": "shell", "local/*": "readonly", "*/y?": "workspace"},
        },
    ).sandbox
    names = ["local/x", "local/z", "local/y1", "agent/y1", "agent/y", "builtin/bash", "agent/q"]
    assert [sandbox.profile_name(name) for name in names] == [
        "shell",
        "readonly",
        "workspace",
        "workspace",
        "readonly",
        "shell",
        "readonly",
    ]


def test_effects_other_than_declared_take_a_process_for_each_call(tmp_path: Path) -> None:
    """A view belongs to one call, so its worker is never pooled."""
    profiles = load(
        tmp_path,
        {
            "profiles": {
                "workspace": {"effects": "observed", "commit": "always"},
                "strict": {"extends": "readonly", "effects": "enforced"},
            }
        },
    ).sandbox.profiles
    found = {name: (p.effects, p.commit, p.isolation) for name, p in profiles.items()}
    assert found == {
        "workspace": ("observed", "always", "fresh"),
        "shell": ("observed", "always", "fresh"),
        "readonly": ("declared", "success", "pooled"),
        "strict": ("enforced", "success", "fresh"),
    }
