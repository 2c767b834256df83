"""``raw tools list``."""

from __future__ import annotations

import json


def test_list_says_what_is_selected_and_what_is_denied(home, invoke):
    """Contract: denied tools are listed, with the rule."""
    folder = home.add_append_notes()
    home.configure(["local/append_notes"], [{"match": "local/*", "effect": "deny"}])
    done = invoke("tools", "list", "--json")
    assert done.exit_code == 0
    data = json.loads(done.stdout)
    digest = data["tools"][0].pop("digest")
    assert digest.startswith("sha256:")
    assert data == {
        "agent": "main",
        "tools": [
            {
                "identity": "local/append_notes",
                "name": "append_notes",
                "version": "1.0.0",
                "language": "python",
                "profile": "workspace",
                "visible": False,
                "denied_by": {"index": 0, "match": "local/*"},
                "folder": str(folder),
            }
        ],
        "warnings": [],
    }
    assert "denied by rule 0" in invoke("tools", "list").stdout


def test_list_all_adds_the_names_of_folders_that_are_not_selected(home, invoke):
    """Contract: unselected folders are never opened; a broken one does no harm."""
    home.add_append_notes()
    (home.tools / "broken").mkdir()
    (home.tools / "broken" / "tool.json").write_text("{")
    home.configure(["local/append_notes"])
    data = json.loads(invoke("tools", "list", "--all", "--json").stdout)
    found = [item for item in data["unselected"] if not item["identity"].startswith("builtin/")]
    assert found == [{"identity": "local/broken", "folder": str(home.tools / "broken")}]
    assert "local/broken" in invoke("tools", "list", "--all").stdout
    assert "broken" not in invoke("tools", "list").stdout


def test_list_without_a_configuration_says_how_to_get_one(home, invoke):
    """A note, not an error."""
    done = invoke("tools", "list")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "raw config init" in done.stderr


def test_a_selected_tool_that_does_not_exist_is_a_configuration_error(home, invoke):
    """Contract: exit status 2, with the place in the configuration."""
    home.configure(["local/append_note"])
    home.add_append_notes()
    done = invoke("tools", "list")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "append_notes" in done.stderr
