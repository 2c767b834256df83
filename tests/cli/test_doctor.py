"""``raw doctor``: what the host can do, told by doing it."""

from __future__ import annotations

import json
import os
import sys

import pytest

from raw_exec.cli import host
from raw_exec.errors import WorkerBroken
from raw_exec.pool import runtimes

NOTHING = {"works": False, "step": "probe", "errno": 38, "message": "no", "hint": "get it"}
BASELINE = {"works": True, "step": None, "errno": None, "message": None, "hint": None}


def fake_probe(monkeypatch, **works):
    """Let the host have some features only."""

    async def probe():
        found = {
            name: (BASELINE if works.get(name) else NOTHING)
            | {"abi": 3, "kinds": ["pid"], "version": "v2", "controllers": ["memory"]}
            for name in ("landlock", "seccomp", "namespaces", "cgroup", "overlay")
        }
        return found | {"uid": 0, "euid": 0, "kernel": "x", "arch": "x86_64"}

    monkeypatch.setattr(host, "_probe", probe)


def test_doctor_probes_this_host_for_real(home, raw):
    """Contract: through the launcher, and exit status 0 if the baseline works."""
    done = raw("doctor", "--json")
    report = json.loads(done.stdout)
    assert done.stderr == ""
    assert done.returncode == (0 if report["ok"] else 7)
    assert [item["name"] for item in report["sandbox"]] == [
        "landlock",
        "seccomp",
        "namespaces",
        "cgroup",
        "overlay",
    ]
    assert [item["name"] for item in report["host"]] == ["node", "python", "cache", "config"]


@pytest.mark.parametrize(
    ("works", "tier", "status"),
    [
        ({}, "none", 7),
        ({"landlock": True}, "none", 7),
        ({"landlock": True, "seccomp": True}, "baseline", 0),
        ({"landlock": True, "seccomp": True, "namespaces": True}, "namespaces", 0),
    ],
)
def test_the_exit_status_says_whether_the_baseline_works(
    home, invoke, monkeypatch, works, tier, status
):
    """Contract: 0 or 7."""
    fake_probe(monkeypatch, **works)
    done = invoke("doctor", "--json")
    report = json.loads(done.stdout)
    assert (done.exit_code, report["tier"], report["ok"]) == (status, tier, status == 0)


def test_what_is_missing_comes_with_a_way_to_get_it(home, invoke, monkeypatch):
    """For people: a line per feature, and a hint."""
    fake_probe(monkeypatch, landlock=True, seccomp=True)
    lines = invoke("doctor").stdout.splitlines()
    at = next(i for i, line in enumerate(lines) if "namespaces" in line)
    assert lines[at].startswith("  fix  namespaces")
    assert lines[at + 1] == "       hint: get it"


def test_a_launcher_that_does_not_start_is_a_finding(home, invoke, monkeypatch):
    """Not a traceback, and exit status 7."""

    async def probe():
        raise WorkerBroken("worker_crashed", "launcher can't be started: no")

    monkeypatch.setattr(host, "_probe", probe)
    done = invoke("doctor", "--json")
    report = json.loads(done.stdout)
    assert done.exit_code == 7
    assert report["sandbox"][0]["message"] == "launcher can't be started: no"


def test_a_missing_node_is_a_finding_that_says_how_to_get_it(home, invoke, monkeypatch):
    """Python tools run without it, so the exit status does not change."""
    fake_probe(monkeypatch, landlock=True, seccomp=True)
    monkeypatch.setenv("RAW_EXEC_NODE", "/nonexistent/node")
    done = invoke("doctor", "--json")
    (node,) = [item for item in json.loads(done.stdout)["host"] if item["name"] == "node"]
    assert (done.exit_code, node["ok"], bool(node["hint"])) == (0, False, True)


@pytest.mark.parametrize(
    ("prepare", "ok", "word"),
    [
        (None, True, "defaults are used"),
        ("open", False, "mode 0644"),
        ("broken", False, "expected a key"),
        ("good", True, "mode 0600"),
    ],
)
def test_the_configuration_file_is_looked_at(home, invoke, monkeypatch, prepare, ok, word):
    """Its mode, and whether it loads."""
    fake_probe(monkeypatch, landlock=True, seccomp=True)
    if prepare is not None:
        home.configure()
        if prepare == "open":
            home.config_file.chmod(0o644)
        if prepare == "broken":
            home.config_file.write_text("{,}")
    done = invoke("doctor", "--json")
    (found,) = [item for item in json.loads(done.stdout)["host"] if item["name"] == "config"]
    assert (done.exit_code, found["ok"], word in found["message"]) == (0, ok, True)


def host_finding(invoke, name):
    """Return one of the findings about the host."""
    (found,) = [
        item
        for item in json.loads(invoke("doctor", "--json").stdout)["host"]
        if item["name"] == name
    ]
    return found


def test_a_node_that_workers_would_refuse_is_not_ok(home, invoke, monkeypatch):
    """The same question and the same answer as before a worker is started."""
    fake_probe(monkeypatch, landlock=True, seccomp=True)
    monkeypatch.setenv("RAW_EXEC_NODE", os.path.realpath(sys.executable))
    monkeypatch.setattr(runtimes, "_ask_node", lambda node: ("v12.22.12", 1))
    node = host_finding(invoke, "node")
    assert (node["ok"], "v12.22.12" in node["message"]) == (False, True)
    assert "is too old" in node["message"]
    assert node["detail"]["source"] == "RAW_EXEC_NODE"


def test_the_cache_looked_at_is_that_of_the_engine(home, invoke, monkeypatch):
    """A folder above it that others may write into says nothing about it."""
    fake_probe(monkeypatch, landlock=True, seccomp=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(home.root / "cache"))
    engine = home.root / "cache" / "raw" / "engine"
    engine.mkdir(parents=True)
    engine.chmod(0o777)
    found = host_finding(invoke, "cache")
    assert (found["ok"], found["detail"]["path"]) == (False, str(engine))
    assert "changed by others" in found["message"]
    engine.chmod(0o700)
    assert host_finding(invoke, "cache")["ok"] is True


def test_an_implicit_configuration_that_cannot_be_read_is_not_absent(home, invoke, monkeypatch):
    """Every other command would refuse to start because of it."""
    fake_probe(monkeypatch, landlock=True, seccomp=True)
    home.config_file.symlink_to(home.config_file)
    found = host_finding(invoke, "config")
    assert (found["ok"], "can not be read: " in found["message"]) == (False, True)


def test_no_configuration_where_its_folder_is_a_file_is_absent(home, invoke, monkeypatch):
    """The pair: nothing is there to read."""
    fake_probe(monkeypatch, landlock=True, seccomp=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", sys.executable)
    found = host_finding(invoke, "config")
    assert (found["ok"], "defaults are used" in found["message"]) == (True, True)
