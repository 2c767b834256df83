"""Start the launcher: ``python -I -S -E main.py CONTROL_FD``.

It starts itself once more, as ``main.py --zygote FD LAUNCHER_PID MSGPACK_DIR``, when the
process that Python workers are forked from has died.

Run by path. The folder is loaded as the package ``launcher`` so that no module
of ours can be mistaken for one of a Python worker's with the same file name.
"""

from __future__ import annotations

import importlib
import os
import sys


def main() -> None:
    """Serve the control socket named by ``argv[1]`` until it reaches end of file."""
    command, *rest = sys.argv[1:]
    here = os.path.dirname(os.path.realpath(__file__))
    parent = os.path.dirname(here)
    sys.dont_write_bytecode = True
    sys.path.insert(0, parent)
    name = ".zygote" if command == "--zygote" else ".loop"
    module = importlib.import_module(os.path.basename(here) + name)
    sys.path.remove(parent)
    if command == "--zygote":
        number, launcher, msgpack_dir = rest
        module.serve_anew(int(number), int(launcher), msgpack_dir)
    module.run(int(command))


if __name__ == "__main__":
    main()
