"""Ask a registry: the database file of this machine, or a server.

``EmbeddedRegistry`` and ``RemoteRegistry`` have the same methods, which return the values of
``raw_exec.contracts.model`` and raise ``RegistryError``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from .credentials import Credential, Credentials
from .login import Login, log_in
from .remote import RemoteRegistry
from .transport import Transport, check_url

if TYPE_CHECKING:
    from .embedded import EmbeddedRegistry

    Registry: TypeAlias = EmbeddedRegistry | RemoteRegistry

__all__ = [
    "Credential",
    "Credentials",
    "Login",
    "Registry",
    "RemoteRegistry",
    "Transport",
    "check_url",
    "log_in",
    "open_registry",
]


def open_registry(address: str, token: str | None = None) -> Registry:
    """Open the registry at an address.

    Args:
        address: A URL of a server (``http://…``, ``https://…``), or a database: a file that
            exists, ``sqlite:///path`` or ``postgresql://…``.
        token: The key for a server.

    Raises:
        NotFound: ``registry_missing``, for a file that does not exist.
        Invalid: ``registry_url``.
        StoreError: The database can not be used.
        ModuleNotFoundError: For a database, when the packages of the extra are missing.
    """
    if address.startswith(("http://", "https://")):
        return RemoteRegistry(Transport(address, token))
    from pathlib import Path

    from ..errors import NotFound

    path = address.removeprefix("sqlite:///")
    if "://" not in path and not Path(path).is_file():
        raise NotFound(
            "registry_missing",
            f"there is no registry at {path}",
            hint="make one with `raw registry user add EMAIL` and `raw registry workspace add "
            "NAME --owner EMAIL`, or use a server with `raw registry login URL`",
        )
    from ..store import open_store
    from .embedded import EmbeddedRegistry

    shown = address if "://" not in address else address.split("://")[0] + "://…"
    return EmbeddedRegistry(open_store(address), shown)
