"""Run the targets under a coverage-guided fuzzer, for a while.

    python tests/fuzz/coverage_guided.py [--seconds S] [TARGET]...

Needs the optional package ``atheris``; without it, this says so and ends with status 0. Each
target gets a process of its own, since the fuzzer ends its process. An input that breaks the
rule of ``targets.py`` is printed, kept in ``.hypothesis/atheris/``, and makes the exit status 1.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
KEPT = ROOT / ".hypothesis" / "atheris"
_CHILD = "--one"
_GRACE_SECONDS = 60


def main() -> int:
    """Fuzz every target in turn and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("--seconds", type=int, default=60, help="for all targets together")
    options = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        print("skipped: the package 'atheris' is not installed (pip install atheris)")
        return 0
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    from fuzz.targets import TARGETS

    unknown = [name for name in options.targets if name not in TARGETS]
    if unknown:
        parser.error(f"unknown target {unknown[0]!r}; known: {', '.join(TARGETS)}")
    chosen = options.targets or list(TARGETS)
    each = max(1, options.seconds // len(chosen))
    failed = [name for name in chosen if not _fuzz(name, each)]
    print(f"{len(chosen)} targets, {each} s each, {len(failed)} with a finding", *failed)
    return 1 if failed else 0


def _fuzz(name: str, seconds: int) -> bool:
    """Run one target in a process; return whether it found nothing."""
    KEPT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder, "corpus")
        corpus.mkdir()
        command = [
            *(sys.executable, __file__, _CHILD, name, str(corpus)),
            f"-max_total_time={seconds}",
            "-timeout=20",
            "-max_len=8192",
            "-rss_limit_mb=4096",
            f"-artifact_prefix={KEPT}/{name}-",
        ]
        try:
            done = subprocess.run(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=seconds + _GRACE_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            print(f"{name}: did not end")
            return False
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    summary = next((line for line in reversed(lines) if "cov:" in line), "no summary")
    print(f"{name}: {summary.strip()}", flush=True)
    if done.returncode != 0:
        print("\n".join(f"  {line}" for line in lines[-40:]))
    return done.returncode == 0


def _child(name: str, arguments: list[str]) -> None:
    """Fuzz one target in this process. Does not return."""
    import atheris

    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    with atheris.instrument_imports(include=["raw_exec"]):
        from fuzz.targets import TARGETS, seeds, words

    corpus = Path(arguments[0])
    for number, seed in enumerate(seeds(name)):
        (corpus / f"seed-{number}").write_bytes(seed)
    dictionary = corpus.parent / "words.dict"
    entries = ["".join(f"\\x{byte:02x}" for byte in word) for word in words(name) if word]
    dictionary.write_text("".join(f'"{entry}"\n' for entry in entries))
    target = TARGETS[name]

    def one(data: bytes) -> None:
        target(data)

    atheris.Setup([sys.argv[0], *arguments, f"-dict={dictionary}"], one)
    atheris.Fuzz()


if __name__ == "__main__":
    if sys.argv[1:2] == [_CHILD]:
        _child(sys.argv[2], sys.argv[3:])
    else:
        sys.exit(main())
