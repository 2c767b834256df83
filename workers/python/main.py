"""The worker for one Python plugin: ``serve()``, called in a process that the launcher forked.

Importing this module does nothing but define it, so that the launcher can do so once and
fork often. As a script (``python -I -S main.py --msgpack-dir DIR``) it serves by itself.

Security: references are taken before the plugin is imported, and builtins are copied, so a
plugin that replaces ``builtins.len`` or ``os.write`` changes no frame. That is order, no
boundary: Python code can reach every object of its process through ``gc`` or frames, and
write to fd 4 itself. What is trusted is one plugin, in one sandboxed process, and the
supervisor believes nothing that it cannot decode strictly.

What the plugin finds: the standard library, ``raw_plugin`` (itself), its folder and its
folder's ``site-packages`` on ``sys.path``; in ``sys.modules`` also whatever modules of the
standard library the launcher had imported; never this package nor ``msgpack``.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_WORKERS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

if not __package__:
    # Run as a script or loaded by path: make the siblings importable for this moment.
    _entries = [os.path.dirname(_WORKERS)]
    if __name__ == "__main__" and "--msgpack-dir" in sys.argv:
        _entries.append(sys.argv[sys.argv.index("--msgpack-dir") + 1])
    sys.path[:0] = _entries
    __package__ = "workers.python"
    __import__(__package__)
    from .session import Session

    for _entry in _entries:
        sys.path.remove(_entry)
else:
    from .session import Session


def serve() -> NoReturn:
    """Serve requests on fds 3, 4 and 5 until told to stop. Never returns."""
    Session(_WORKERS).run()


if __name__ == "__main__":
    serve()
