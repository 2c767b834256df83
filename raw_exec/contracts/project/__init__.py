"""A project's prompts: its file, the lock, the cache, and the bindings made of them."""

from .bindings import Generated, generate_bindings, resolved_lock
from .content import Content, content_of, read_content
from .file import PROJECT_NAME, Entry, Output, Project, language_of, load_project, read_entry
from .install import Installed, add, install, remove, update
from .lock import LOCK_NAME, Locked, load_lock

__all__ = [
    "LOCK_NAME",
    "PROJECT_NAME",
    "Content",
    "Entry",
    "Generated",
    "Installed",
    "Locked",
    "Output",
    "Project",
    "add",
    "content_of",
    "generate_bindings",
    "install",
    "language_of",
    "load_lock",
    "load_project",
    "read_content",
    "read_entry",
    "remove",
    "resolved_lock",
    "update",
]
