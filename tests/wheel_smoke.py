"""Build the wheel, install it into a clean environment elsewhere, and use it there.

Run with ``make wheel-test``. Needs the build backend; prints one line per step.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent


def run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=900,
    )
    if done.returncode:
        sys.exit(f"{command}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="raw-wheel-") as name:
        home = Path(name)
        run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", home, cwd=ROOT)
        (wheel,) = home.glob("*.whl")
        print(f"built      {wheel.name}, {wheel.stat().st_size // 1024} KiB")

        venv.create(home / "venv", with_pip=True)
        python = home / "venv" / "bin" / "python"
        what = str(wheel) if shutil.which("node") else f"{wheel}[node]"
        run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", what, cwd=home)
        print("installed  into a clean environment outside the checkout")

        raw = home / "venv" / "bin" / "raw"
        env = {
            "HOME": str(home / "user"),
            "XDG_CONFIG_HOME": str(home / "user" / ".config"),
            "PATH": f"{raw.parent}:{os.environ.get('PATH', os.defpath)}",
            "LANG": "C.UTF-8",
        }
        work = home / "work"
        work.mkdir()
        assert "Usage" in run(raw, "--help", cwd=work, env=env)
        doctor = json.loads(run(raw, "doctor", "--json", cwd=work, env=env))
        print(f"doctor     {', '.join(sorted(doctor))}")
        for ident, language in (("local/esm_one", "esm"), ("local/py_one", "python")):
            run(raw, "tools", "new", ident, "--lang", language, cwd=work, env=env)
        config = home / "user" / ".config" / "raw" / "config.json"
        tools = {"use": ["local/esm_one", "local/py_one"]}
        config.write_text(json.dumps({"default_agent": "a", "agents": {"a": {"tools": tools}}}))
        config.chmod(0o600)
        run(raw, "tools", "check", cwd=work, env=env)
        for tool in ("esm_one", "py_one"):
            case = json.loads(
                next((config.parent / "tools" / tool / "cases").glob("*.json")).read_text()
            )
            for path, text in case.get("files", {}).items():
                (work / path).write_text(text)
            arguments = json.dumps(case["args"])
            out = run(raw, "tools", "call", tool, "--args", arguments, "--json", cwd=work, env=env)
            result = json.loads(out)
            assert not result["is_error"], result
            print(f"called     {tool}: {result['content'][0]}")
        run(python, "-m", "pip", "uninstall", "-q", "-y", "raw-exec", cwd=home)
        left = list((home / "venv").rglob("raw_exec/**/*.py"))
        assert not left, left
        print("removed    nothing of the package is left")


if __name__ == "__main__":
    main()
