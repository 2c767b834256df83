"""``raw tools new`` writes a tool that works as it is."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from raw_exec.manifest import load_tool
from raw_exec.schema.portability import find_portability_warnings
from requires import require_node

LANGUAGES = ["esm", "python"]


def own_test(lang):
    """Return the command that runs the test of a new tool in its folder."""
    if lang == "esm":
        return [require_node(), "--test", "test.mjs"]
    return [sys.executable, "test_tool.py"]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_new_manifest_loads_without_any_warning(home, invoke, lang):
    """Contract: it passes ``check`` as written."""
    done = invoke("tools", "new", "word_count", "--lang", lang)
    assert (done.exit_code, done.stdout) == (0, f"{home.tools / 'word_count'}\n")
    loaded = load_tool(home.tools, "word_count", source="local")
    assert loaded.warnings == ()
    assert find_portability_warnings(loaded.manifest.compiled_input) == ()
    assert loaded.manifest.language == lang
    assert 'Example: {"path":"notes.txt"}' in loaded.manifest.description


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_new_tools_own_test_passes_and_leaves_the_folder_as_it_was(home, invoke, lang):
    """Contract: with a test that a person can run."""
    invoke("tools", "new", "word_count", "--lang", lang)
    folder = home.tools / "word_count"
    digest = load_tool(home.tools, "word_count", source="local").snapshot.digest
    done = subprocess.run(
        own_test(lang), cwd=folder, env=home.env, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert load_tool(home.tools, "word_count", source="local").snapshot.digest == digest


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_new_tools_test_fails_when_a_case_is_wrong(home, invoke, lang):
    """The test really runs the cases."""
    invoke("tools", "new", "word_count", "--lang", lang)
    case = home.tools / "word_count" / "cases" / "two_lines.json"
    case.write_text(case.read_text().replace("5 words", "6 words"))
    done = subprocess.run(
        own_test(lang), cwd=case.parent.parent, env=home.env, capture_output=True, timeout=60
    )
    assert done.returncode == 1


def test_nothing_is_ever_overwritten(home, invoke):
    """Contract: a second time is an error, and the files stay."""
    invoke("tools", "new", "word_count")
    index = home.tools / "word_count" / "index.mjs"
    index.write_text("mine")
    done = invoke("tools", "new", "word_count")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "not overwritten" in done.stderr
    assert index.read_text() == "mine"


@pytest.mark.parametrize(
    ("args", "place", "identity"),
    [
        (["t"], "config/raw/tools/t", "local/t"),
        (["local/t"], "config/raw/tools/t", "local/t"),
        (["agent/t", "--config", "p/raw.json"], "work/p/tools/t", "agent/t"),
        (["t", "--root", "agent", "--config", "p/raw.json"], "work/p/tools/t", "agent/t"),
        (["t", "--dir", "here"], "work/here/t", None),
    ],
)
def test_the_folder_goes_where_it_is_told(home, invoke, args, place, identity):
    """The ID says the root, or an option does."""
    done = invoke("tools", "new", *args, "--json")
    assert done.exit_code == 0
    data = json.loads(done.stdout)
    assert (data["folder"], data["identity"]) == (str(home.root / place), identity)
    assert (home.root / place / "tool.json").exists()


def test_the_next_steps_name_the_configuration_line(home, invoke):
    """They go to standard error; ``-q`` is without them."""
    assert 'add "local/t" to agents.<name>.tools.use' in invoke("tools", "new", "t").stderr
    assert invoke("-q", "tools", "new", "u").stderr == ""


@pytest.mark.parametrize(
    "args",
    [
        ["Word"],
        ["../evil"],
        ["local/../evil"],
        ["builtin/x"],
        ["local/a", "--root", "agent"],
        ["local/a", "--dir", "."],
    ],
)
def test_a_wrong_id_is_refused_and_nothing_is_written(home, invoke, args):
    """Usage errors."""
    before = sorted(home.root.rglob("*"))
    assert invoke("tools", "new", *args).exit_code == 2
    assert sorted(home.root.rglob("*")) == before
