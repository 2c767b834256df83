"""A plain script that calls a tool from several threads.

python plain_script.py config.json echo '{"text": "hello"}'
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import raw_exec
import raw_exec.blocking


def main(config_path: str, name: str, text: str) -> int:
    """Call the tool four times at once and print what came back."""
    config = raw_exec.load_config(config_path)
    arguments = json.loads(text)
    with (
        raw_exec.blocking.open_runtime(config, cwd=".") as runtime,
        ThreadPoolExecutor() as threads,
    ):
        calls = [threads.submit(runtime.registry.dispatch, name, arguments) for _ in range(4)]
        results = [call.result() for call in calls]
    for result in results:
        print(result.code or "ok", result.text)
    return int(any(result.is_error for result in results))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
