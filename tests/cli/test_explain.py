"""``raw tools explain``: what would happen, without it happening."""

from __future__ import annotations

import json

import pytest

WHEN = {"source": "arguments", "any": "path", "regex": r"secret"}
RULES = [
    {"match": "local/*", "effect": "deny"},
    {"match": "*", "effect": "allow"},
    {"match": "local/append_notes", "effect": "ask", "when": WHEN},
    {"match": "builtin/*", "effect": "ask"},
]


@pytest.fixture
def notes(home):
    """The seed's tool under a few rules."""
    home.add_append_notes()
    home.configure(["local/append_notes"], RULES)
    return home


def explained(invoke, *options):
    """Return the parsed explanation."""
    done = invoke("tools", "explain", "append_notes", "--json", *options)
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    return json.loads(done.stdout)


def test_the_plan_and_the_rules_about_the_tool_are_shown(notes, invoke):
    """Contract: plan, grants, rules that apply, and which would decide."""
    data = explained(invoke)
    assert data["plan"]["read"] == data["plan"]["write"] == [str(notes.work)]
    assert (data["plan"]["network"], data["plan"]["processes"]) == ("none", "none")
    assert data["rules"] == [
        {
            "index": 0,
            "match": "local/*",
            "effect": "deny",
            "when": None,
            "review": False,
            "role": "overridden by rule 1",
        },
        {
            "index": 1,
            "match": "*",
            "effect": "allow",
            "when": None,
            "review": False,
            "role": "decides when no later one matches",
        },
        {
            "index": 2,
            "match": "local/append_notes",
            "effect": "ask",
            "when": WHEN,
            "review": False,
            "role": "decides when it matches",
        },
    ]
    assert data["would"]["would"] == "depends"


@pytest.mark.parametrize(
    ("args", "would", "code", "rule"),
    [
        ({"path": "a", "text": "x\n"}, "run", None, 1),
        ({"path": "my secret", "text": "x\n"}, "ask", None, 2),
        ({"path": "a", "text": "x"}, "refuse", "invalid_arguments", None),
        ({"path": "a"}, "refuse", "invalid_arguments", None),
    ],
)
def test_arguments_are_judged_as_a_call_would_be(notes, invoke, args, would, code, rule):
    """Contract: the same stages up to the rules, and nothing written."""
    judged = explained(invoke, "--args", json.dumps(args))["would"]
    assert (judged["would"], judged["code"], judged["rule"]) == (would, code, rule)
    assert list(notes.work.iterdir()) == []


def test_the_match_of_a_conditional_rule_is_named(notes, invoke):
    """Which field matched which pattern."""
    judged = explained(invoke, "--args", '{"path":"secret","text":"x\\n"}')["would"]
    assert judged["matched"] == {"source": "arguments", "pointer": "/path", "regex": "secret"}


def test_a_judgement_agrees_with_the_call(notes, invoke, raw):
    """``explain`` and ``call`` walk the same stages."""
    args = '{"path":"secret","text":"x\\n"}'
    assert explained(invoke, "--args", args)["would"]["would"] == "ask"
    done = raw("tools", "call", "append_notes", "--args", args, "--json")
    data = json.loads(done.stdout)
    assert (data["code"], data["detail"]["rule"]["index"]) == ("approval_required", 2)


def test_a_denied_tool_is_explained_by_its_rule(home, invoke):
    """No model sees it."""
    home.add_append_notes()
    home.configure(["local/append_notes"], [{"match": "*", "effect": "deny"}])
    data = explained(invoke)
    assert (data["visible"], data["would"]["code"], data["would"]["rule"]) == (
        False,
        "tool_denied",
        0,
    )


def test_a_path_is_judged_with_the_grant_that_covers_it(notes, invoke):
    """Contract: would reading and writing be allowed, and by which grant."""
    (notes.work / "link").symlink_to("/etc/passwd")
    paths = explained(invoke, "--path", "a/b", "--path", "/etc/shadow", "--path", "link")["paths"]
    found = [(p["path"], p["read"], p["write"], p["grant"]) for p in paths]
    assert found == [
        (str(notes.work / "a" / "b"), True, True, str(notes.work)),
        ("/etc/shadow", False, False, None),
        (str(notes.work / "link"), paths[2]["read"], False, paths[2]["grant"]),
    ]
    assert paths[2]["real_path"] == "/etc/passwd"


def test_a_path_is_judged_as_the_sandbox_does(notes, invoke, raw):
    """The answer is what happens: one path it says yes to, one it says no to."""
    outside = notes.root / "outside.txt"
    paths = explained(invoke, "--path", "in.txt", "--path", str(outside))["paths"]
    assert [path["write"] for path in paths] == [True, False]
    for path in paths:
        args = json.dumps({"path": path["path"], "text": "x\n"})
        done = raw("tools", "call", "append_notes", "--args", args)
        assert (done.returncode == 0) is path["write"]


@pytest.mark.parametrize(
    ("network", "host", "allowed"),
    [
        ("none", "example.org", False),
        ("none", "localhost", False),
        ("loopback", "localhost", True),
        ("loopback", "example.org", False),
        ("host", "example.org", True),
    ],
)
def test_a_host_is_judged_by_the_network_grant(home, invoke, network, host, allowed):
    """Contract: ``--host``."""
    home.add_append_notes()
    sandbox = {"profiles": {"workspace": {"network": network}}}
    home.configure(["local/append_notes"], sandbox=sandbox)
    (found,) = explained(invoke, "--host", host)["hosts"]
    assert (found["host"], found["allowed"]) == (host, allowed)


def test_people_read_the_same_facts(notes, invoke):
    """Plan, rules, paths, hosts and the judgement, as lines."""
    done = invoke(
        "tools",
        "explain",
        "append_notes",
        "--path",
        "x",
        "--host",
        "example.org",
        "--args",
        '{"path":"secret","text":"x\\n"}',
    )
    assert (done.exit_code, done.stderr) == (0, "")
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert "sandbox plan (profile workspace)" in lines
    assert "rules about it (3)" in lines
    assert f"path {notes.work}/x" in lines
    assert "connect: no" in lines
    assert lines[-1] == "ask: approval: rule 2 asks, since arguments /path matches 'secret'"


def test_an_unknown_tool_is_a_usage_error_with_a_suggestion(notes, invoke):
    """Exit status 2."""
    done = invoke("tools", "explain", "append_note")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "did you mean 'append_notes'?" in done.stderr
