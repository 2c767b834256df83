"""Start the launcher: ``python -I -S -E main.py CONTROL_FD``.

Run by path. The folder is loaded as the package ``launcher`` so that no module
of ours can be mistaken for one of a Python worker's with the same file name.
"""

from __future__ import annotations

import importlib
import os
import sys


def main() -> None:
    """Serve the control socket named by ``argv[1]`` until it reaches end of file."""
    here = os.path.dirname(os.path.realpath(__file__))
    parent = os.path.dirname(here)
    sys.dont_write_bytecode = True
    sys.path.insert(0, parent)
    loop = importlib.import_module(os.path.basename(here) + ".loop")
    sys.path.remove(parent)
    loop.run(int(sys.argv[1]))


if __name__ == "__main__":
    main()
