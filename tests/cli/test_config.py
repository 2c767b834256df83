"""``raw config`` and ``raw version``."""

from __future__ import annotations

import json
import stat

import pytest

from raw_exec import __version__


def test_init_writes_a_private_file_that_list_accepts(home, invoke):
    """Contract: mode 0600, at the implicit place."""
    done = invoke("config", "init")
    assert (done.exit_code, done.stdout) == (0, f"{home.config_file}\n")
    assert stat.S_IMODE(home.config_file.stat().st_mode) == 0o600
    assert invoke("config", "list").exit_code == 0


def test_init_never_overwrites(home, invoke):
    """Contract: an existing file is left as it is."""
    home.config_file.write_text("mine")
    done = invoke("config", "init")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "not overwritten" in done.stderr
    assert home.config_file.read_text() == "mine"


@pytest.mark.parametrize("args", [["init", "x.json"], ["init", "--config", "x.json"]])
def test_init_writes_where_it_is_told(home, invoke, args):
    """As an argument, or by the common option."""
    done = invoke("config", *args, "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout) == {"path": str(home.work / "x.json")}
    assert (home.work / "x.json").exists()


@pytest.mark.parametrize("place", ["before", "between", "after"])
def test_common_options_stand_before_or_after_the_command(home, invoke, place):
    """Contract: the walkthrough uses both."""
    other = home.work / "other.json"
    other.write_text('{"agents":{"x":{},"y":{}}}')
    other.chmod(0o600)
    common = ["--config", str(other), "--agent", "y", "--json"]
    args = {
        "before": [*common, "config", "list"],
        "between": ["config", *common, "list"],
        "after": ["config", "list", *common],
    }[place]
    done = invoke(*args)
    assert done.exit_code == 0
    data = json.loads(done.stdout)
    assert (data["path"], data["agent"]) == (str(other), "y")


def test_an_option_after_the_command_wins_over_one_before(home, invoke):
    """The nearer one is meant."""
    home.config_file.write_text('{"agents":{"x":{},"y":{}}}')
    done = invoke("--agent", "x", "config", "list", "--agent", "y", "--json")
    assert json.loads(done.stdout)["agent"] == "y"


def test_list_shows_tools_rules_and_no_secret(home, invoke):
    """Contract: no values of variables."""
    home.add_append_notes()
    home.configure(
        ["local/append_notes"],
        [{"match": "local/*", "effect": "ask"}],
        vars={
            "key": {
                "description": "A key",
                "access": "use",
                "source": {"kind": "literal", "value": "s3cret"},
            }
        },
    )
    for args in (["config", "list"], ["config", "list", "--json"], ["-v", "config", "list"]):
        done = invoke(*args)
        assert done.exit_code == 0
        assert "local/append_notes" in done.stdout
        assert "s3cret" not in done.stdout + done.stderr


def test_list_runs_no_code_of_a_tool(home, invoke):
    """Contract: static."""
    folder = home.add_append_notes()
    (folder / "index.py").write_text(f"open({str(home.work / 'ran')!r}, 'w')\n")
    home.configure(["local/append_notes"])
    assert invoke("config", "list").exit_code == 0
    assert not (home.work / "ran").exists()


def test_a_readable_configuration_is_warned_about_unless_quiet(home, invoke):
    """It may hold secrets."""
    home.configure().chmod(0o644)
    assert "warning: " in invoke("config", "list").stderr
    assert invoke("-q", "config", "list").stderr == ""


@pytest.mark.parametrize("args", [["version"], ["--version"]])
def test_version_is_printed_as_words_or_json(invoke, args):
    """Both spellings."""
    assert invoke(*args).stdout == f"raw {__version__}\n"
    assert json.loads(invoke("--json", *args).stdout)["version"] == __version__
