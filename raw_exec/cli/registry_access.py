"""Which registry a command asks, with which key, and what its commands share.

The first that is named: ``--registry``, ``$RAW_REGISTRY``, the project's file, ``contracts`` of
the configuration, ``$RAW_REGISTRY_DB``, the only login, and else this user's database file.

Security: a key goes only to the address that it belongs to: a login's to where it was made,
``$RAW_REGISTRY_KEY`` to ``$RAW_REGISTRY``. So a project that names its own registry gets no
key that was not meant for that.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ..errors import ConfigError
from .options import Command, Settings, command
from .registry_database import default_database, plain, registry_extra_missing

if TYPE_CHECKING:
    from ..contracts.client import Credentials, Registry
    from ..contracts.model import Page

__all__ = [
    "brief_versions",
    "chosen_text",
    "content_options",
    "credentials",
    "input_name",
    "open_target",
    "page_options",
    "read_input",
    "read_text",
    "registry_command",
    "show",
    "show_page",
    "show_versions",
    "status_option",
    "use_registry",
    "write_folder",
]

_MAX_INPUT_BYTES: Final = 4 * 1024 * 1024
_EXTRA: Final = ("sqlalchemy", "alembic", "nodesemver", "psycopg", "yaml")


def credentials() -> Credentials:
    """Return the file with the keys of logins."""
    from ..config import config_path
    from ..contracts.client import Credentials

    return Credentials(config_path().parent / "registry-credentials.json")


def _registry_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--registry",
        metavar="URL|FILE",
        help="A server, or a database file. Default: $RAW_REGISTRY, the project's, "
        "contracts.registry or contracts.store of the configuration, the only login, else "
        "this user's database file.",
    )(function)


def registry_command(name: str, *, asks: bool = True) -> Callable[[Callable[..., Any]], Command]:
    """Make a function a command that may need the extra's packages.

    Args:
        asks: Whether it takes ``--registry``.
    """

    def decorate(function: Callable[..., Any]) -> Command:
        @functools.wraps(function)
        def run(*args: Any, **named: Any) -> Any:
            try:
                return function(*args, **named)
            except ModuleNotFoundError as exc:
                if exc.name not in _EXTRA:
                    raise
                raise registry_extra_missing(exc) from exc

        return command(name)(_registry_option(run) if asks else run)

    return decorate


def _find_address(settings: Settings, named: str | None, project: str | None) -> str:
    chosen = named or os.environ.get("RAW_REGISTRY") or project or _configured(settings)
    if chosen:
        return chosen
    if not os.environ.get("RAW_REGISTRY_DB"):
        login = credentials().default()
        if login is not None:
            return login
    return default_database()


def _configured(settings: Settings) -> str | None:
    from ..config import config_path, load_config

    if settings.config is None and not config_path().exists():
        return None
    config = load_config(settings.config, agent=settings.agent)
    if config.contracts.registry is not None or config.contracts.store is None:
        return config.contracts.registry
    return str(Path(config.directory) / config.contracts.store)


def _token_for(address: str) -> str | None:
    from ..contracts.client import check_url

    url = check_url(address)
    key, holder = os.environ.get("RAW_REGISTRY_KEY"), os.environ.get("RAW_REGISTRY", "")
    if key and holder.startswith(("http://", "https://")) and check_url(holder) == url:
        return key
    found = credentials().find(url)
    return None if found is None else found.token


def open_target(settings: Settings, named: str | None, project: str | None = None) -> Registry:
    """Open the registry to ask; the caller closes it.

    Args:
        project: What the project's file names, made absolute.
    """
    from ..contracts.client import open_registry

    address = _find_address(settings, named, project)
    settings.output.detail(f"registry: {_shown(address)}")
    token = None
    if address.startswith(("http://", "https://")):
        token = _token_for(address)
        if token is None:
            settings.output.note(
                f"no key for {_shown(address)}, so only what is public is there; "
                f"to log in: raw registry login {_shown(address)}"
            )
    return open_registry(address, token)


def _shown(address: str) -> str:
    return address if "@" not in address else address.partition("://")[0] + "://…"


@contextmanager
def use_registry(settings: Settings, named: str | None) -> Iterator[Registry]:
    """Open the registry to ask for one command that is about no project."""
    registry = open_target(settings, named)
    try:
        yield registry
    finally:
        registry.close()


def input_name(path: str) -> str:
    """Return what to call an input in messages."""
    return "standard input" if path == "-" else path


def read_input(path: str) -> bytes:
    """Return what a file, or standard input (``-``), holds.

    Raises:
        ConfigError: ``input_unreadable``.
    """
    from ..jsontext import JsonTextError, read_regular_file

    if path == "-":
        if sys.stdin is None:
            raise ConfigError("input_unreadable", "is closed", where=input_name(path))
        data = sys.stdin.buffer.read(_MAX_INPUT_BYTES + 1)
        if len(data) > _MAX_INPUT_BYTES:
            raise ConfigError(
                "input_unreadable",
                f"has more than {_MAX_INPUT_BYTES} bytes",
                where=input_name(path),
            )
        return data
    try:
        return read_regular_file(path, _MAX_INPUT_BYTES)
    except JsonTextError as exc:
        raise ConfigError("input_unreadable", exc.message, where=path) from exc
    except OSError as exc:
        raise ConfigError(
            "input_unreadable", f"can not be read: {exc.strerror}", where=path
        ) from exc


def read_text(path: str) -> str:
    """Return the text in a file, or on standard input."""
    try:
        return read_input(path).decode()
    except UnicodeDecodeError as exc:
        raise ConfigError(
            "input_unreadable", f"is not UTF-8 at byte {exc.start}", where=input_name(path)
        ) from exc


def content_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--content`` and ``--file`` to a command that sets a text."""
    function = click.option(
        "--file", "file", metavar="FILE", help="A file with the text; - is standard input."
    )(function)
    return click.option("--content", metavar="TEXT", help="The text itself.")(function)


def chosen_text(content: str | None, file: str | None) -> str:
    """Return the text that ``--content`` or ``--file`` gives."""
    if content is not None and file is not None:
        raise click.UsageError("--content and --file are mutually exclusive")
    if content is not None:
        return content
    if file is None:
        raise click.UsageError("nothing to set: give --content or --file")
    return read_text(file)


def page_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--limit`` and ``--offset`` to a command that lists."""
    function = click.option(
        "--offset", type=click.IntRange(0), default=0, show_default=True, help="Leave out so many."
    )(function)
    return click.option(
        "--limit",
        type=click.IntRange(1, 1000),
        default=50,
        show_default=True,
        help="Show at most so many.",
    )(function)


def status_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--status`` to a command that lists versions."""
    return click.option(
        "--status",
        type=click.Choice(("DRAFT", "PUBLISHED"), case_sensitive=False),
        help="Only versions of this status.",
    )(function)


def show(settings: Settings, value: Any, text: str) -> None:
    """Print a registry's value as JSON, or else a line about it."""
    if settings.as_json:
        settings.output.json(plain(value))
    else:
        settings.output.line(text)


def show_page(
    settings: Settings,
    page: Page[Any],
    header: tuple[str, ...],
    row: Callable[[Any], tuple[str, ...]],
    none: str,
) -> None:
    """Print a part of a list."""
    if settings.as_json:
        settings.output.json({"data": [plain(one) for one in page.data], "total": page.total})
        return
    if page.data:
        settings.output.table(header, [row(one) for one in page.data])
        settings.output.note(f"showing {len(page.data)} of {page.total}")
    else:
        settings.output.note(none if page.total == 0 else f"none here of {page.total}")


def brief_versions(page: Page[Any]) -> dict[str, Any]:
    """Return a page of versions as JSON data, without what the versions say."""
    names = ("version", "status", "created_at", "updated_at")
    data = [{name: plain(getattr(one, name)) for name in names} for one in page.data]
    return {"data": data, "total": page.total}


def show_versions(settings: Settings, page: Page[Any]) -> None:
    """Print a page of versions, below what they are versions of."""
    settings.output.line(f"versions:    {page.total}")
    for one in page.data:
        settings.output.line(f"  {one.version}  {one.status.value}  {one.updated_at:%Y-%m-%d}")


def write_folder(
    folder: str, files: dict[str, str], *, force: bool, optional: tuple[str, ...] = ()
) -> Path:
    """Write files into a folder that is new, empty, or may be overwritten.

    Args:
        optional: Patterns of files that an earlier dump may have left there; those that are
            not written now are removed, so that the folder says what the version says.

    Raises:
        ConfigError: ``folder_not_empty`` or ``folder_unwritable``.
    """
    root = Path(os.path.abspath(folder))
    try:
        root.mkdir(parents=True, exist_ok=True)
        if not force and any(root.iterdir()):
            raise ConfigError(
                "folder_not_empty",
                "is not empty",
                where=str(root),
                hint="name another folder, or overwrite with --force",
            )
        for pattern in optional:
            for left in root.glob(pattern):
                if str(left.relative_to(root)) not in files:
                    left.unlink()
        for name, text in files.items():
            target = root / name
            target.parent.mkdir(exist_ok=True)
            target.write_text(text, encoding="utf-8", newline="")
    except OSError as exc:
        raise ConfigError(
            "folder_unwritable", f"can not be written: {exc.strerror}", where=str(root)
        ) from exc
    return root
