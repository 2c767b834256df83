"""``raw tools verify``: exit status, and the four forms of its report."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from raw_exec.cli.main import cli
from raw_exec.verify import CaseReport, Finding, ToolReport, render_github, render_junit
from requires import require_node
from toolbox import write_config, write_tool

WRITES = (
    "def handler(args, context):\n"
    "    if args.get('write'):\n"
    "        open(context.cwd + '/a', 'w').close()\n"
    "    if args.get('print'):\n        print(args['print'], flush=True)\n"
    "    return {'content': [{'type': 'text', 'text': args.get('say', 'ok')}]}\n"
)
GOOD = {"args": {}, "expect": {"content": [{"type": "text", "text": "ok"}]}}
BAD = {
    "args": {"say": "no\n::error::forged\n", "print": "##[error]forged"},
    "expect": {"content": [{"type": "text", "text": "ok"}]},
}
COLUMN = json.dumps(BAD).index('{"type"') + 1
Verify = Callable[..., Result]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a selected tool ``t``, and the working directory."""
    write_tool(tmp_path, "t", WRITES, language="python")
    write_config(tmp_path, ["t"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    return tmp_path


@pytest.fixture
def verify(root: Path) -> Verify:
    """Return a function that writes cases of ``t`` and runs the command."""

    def run(cases: dict[str, Any], *args: str) -> Result:
        folder = root / "tools" / "t" / "cases"
        folder.mkdir(exist_ok=True)
        for name, case in cases.items():
            text = case if isinstance(case, str) else json.dumps(case)
            (folder / f"{name}.json").write_text(text)
        command = ["--config", str(root / "config.json"), "tools", "verify", *args]
        return CliRunner().invoke(cli, command, prog_name="raw")

    return run


@pytest.mark.parametrize(
    ("cases", "status"),
    [
        ({}, 0),
        ({"a": GOOD}, 0),
        ({"a": GOOD, "b": BAD}, 1),
        ({"a": GOOD, "b": "{"}, 3),
        ({"a": BAD, "b": "{"}, 3),
    ],
)
def test_the_exit_status_says_what_came_of_it(
    verify: Verify, cases: dict[str, Any], status: int
) -> None:
    """Contract: 0 ok, 1 a case failed, 3 an invalid case file, which also wins."""
    assert verify(cases).exit_code == status


@pytest.mark.parametrize(
    "args",
    [
        ("local/none/such",),
        ("--cases", "cases"),
        ("agent/t", "--jobs", "0"),
        ("agent/t", "--junit", "missing/dir/report.xml"),
        ("agent/t", "--cases", "missing"),
    ],
)
def test_a_mistake_in_the_command_line_is_status_2(
    verify: Verify, root: Path, args: tuple[str, ...]
) -> None:
    """Contract; ``--cases`` with no or several targets included."""
    write_config(root, [])
    done = verify({"a": GOOD}, *args)
    assert (done.exit_code, done.stdout) == (2, "")


def test_a_tool_that_can_not_be_loaded_is_status_3(verify: Verify, root: Path) -> None:
    """Our choice: nothing was verified."""
    (root / "tools" / "t" / "tool.json").write_text("{}")
    done = verify({"a": GOOD}, "agent/t", "--json")
    assert done.exit_code == 3
    data = json.loads(done.stdout)
    assert data["counts"] == {"passed": 0, "failed": 0, "invalid": 1}
    assert data["tools"][0]["problems"]


def test_people_read_a_line_per_case_and_why_it_failed(verify: Verify, root: Path) -> None:
    """What a plugin printed is escaped and never starts a line."""
    done = verify({"a": GOOD, "b": BAD, "c": GOOD | {"args": {"write": True}}}, "--strict-effects")
    lines = [line.partition(" (")[0] for line in done.stdout.splitlines()]
    where = f"{root}/tools/t/cases"
    assert lines == [
        "passed  agent/t a",
        "failed  agent/t b",
        f'        {where}/b.json:1:{COLUMN}: block 0: text is "no\\n::error::forged\\n", not "ok"',
        "        [stdout] ##[error]forged",
        "failed  agent/t c",
        f"        {where}/c.json:1:1: undeclared write a",
        "        did: write a",
    ]
    assert done.stderr == "1 passed, 2 failed\n"


def test_json_is_one_value_with_everything(verify: Verify) -> None:
    """Contract: exactly one JSON value on standard output."""
    done = verify({"a": GOOD | {"args": {"write": True}}}, "--json", "--github")
    data = json.loads(done.stdout)
    (case,) = data["tools"][0]["cases"]
    assert (data["ok"], data["counts"]["passed"], case["status"]) == (True, 1, "passed")
    assert case["changes"] == [{"operation": "write", "path": "a", "detail": "file created"}]
    assert (case["outcome"]["code"], case["outcome"]["origin"]) == (None, "tool")


def test_github_gets_annotations_and_no_command_of_a_plugin(verify: Verify, root: Path) -> None:
    """Security: a plugin's text can't be taken for a workflow command."""
    done = verify({"b": BAD}, "--github")
    lines = done.stdout.splitlines()
    stop = lines[0].removeprefix("::stop-commands::")
    end = lines.index(f"::{stop}::")
    assert len(stop) > 32
    assert lines[end + 1 :] == [
        f"::error file=tools/t/cases/b.json,line=1,col={COLUMN},title=agent/t%3A case b::"
        'block 0: text is "no\\n::error::forged\\n", not "ok"'
    ]
    assert [line for line in lines[1:end] if "forged" in line]


def test_junit_is_written_and_can_be_read(verify: Verify, root: Path) -> None:
    """One suite per tool, one test case per case."""
    done = verify({"a": GOOD, "b": BAD, "c": "{"}, "--junit", "report.xml")
    assert done.exit_code == 3
    document = ET.parse(root / "report.xml").getroot()  # noqa: S314  (our own)
    suite = document.find("testsuite")
    assert suite is not None
    assert (document.tag, suite.get("name")) == ("testsuites", "agent/t")
    assert [suite.get(key) for key in ("tests", "failures", "errors", "skipped")] == list("3110")
    found = {case.get("name"): [child.tag for child in case] for case in suite.iter("testcase")}
    assert found == {"a": [], "b": ["failure", "system-err"], "c": ["error"]}


HOSTILE = "\x00\x1b[2J\ud800\ufffe]]>&<\u202e\r\n%::error::x"


def test_hostile_text_is_valid_xml_and_one_line_for_github() -> None:
    """Security: control characters, surrogates and separators can't break out of either."""
    finding = Finding("content", HOSTILE, "", 1, 1)
    case = CaseReport(
        HOSTILE, "/t/cases/a,b:c.json", "failed", failures=(finding,), logs={"stdout": HOSTILE}
    )
    tool = ToolReport("t", "/t", cases=[case])
    text = render_junit([tool])
    document = ET.fromstring(text)  # noqa: S314  (our own)
    failure = document.find(".//failure")
    assert failure is not None
    assert failure.text is not None
    assert failure.text.startswith("1:1: content: \\x00\\x1b[2J")
    (line,) = render_github([tool])
    assert line.isprintable()
    head, _, message = line.removeprefix("::").partition("::")
    assert head.startswith("error file=/t/cases/a%2Cb%3Ac.json,line=1,col=1,title=t%3A case ")
    assert message.endswith("\\x0d%0A%25::error::x")


def test_cases_can_be_kept_elsewhere(verify: Verify, root: Path) -> None:
    """An operator's own cases for somebody else's tool."""
    (root / "mine").mkdir()
    (root / "mine" / "x.json").write_text(json.dumps(GOOD))
    done = verify({"b": BAD}, "agent/t", "--cases", "mine", "--json")
    assert done.exit_code == 0
    assert [case["name"] for case in json.loads(done.stdout)["tools"][0]["cases"]] == ["x"]


@pytest.mark.parametrize("lang", ["esm", "python"])
def test_a_new_tool_passes_as_written(root: Path, lang: str) -> None:
    """Contract: what ``raw tools new`` writes is verified without a change."""
    if lang == "esm":
        require_node()
    runner = CliRunner()
    runner.invoke(cli, ["tools", "new", "fresh", "--lang", lang, "--dir", str(root)])
    done = runner.invoke(cli, ["tools", "verify", str(root / "fresh"), "--json"])
    assert done.exit_code == 0, done.stdout
    assert json.loads(done.stdout)["counts"] == {"passed": 2, "failed": 0, "invalid": 0}


def test_the_documentation_names_every_field_of_a_case() -> None:
    """A field that is not documented would not be used."""
    from raw_exec.verify.case import _EXPECT, _FIELDS, _FILE_FORMS

    page = (Path(__file__).parent.parent.parent / "docs" / "verify.md").read_text()
    missing = [name for name in (*_FIELDS, *_EXPECT, *_FILE_FORMS) if f"`{name}`" not in page]
    assert missing == []
