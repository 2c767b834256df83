"""The socket that a server listens on."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import Final

from ..errors import ConfigError

__all__ = ["is_loopback", "open_listener", "url_of"]

_MAX_PORT: Final = 65535


def open_listener(host: str, port: int) -> socket.socket:
    """Bind an address, so that a mistake in it shows before anything else happens.

    Args:
        port: 0 for any free one.

    Raises:
        ConfigError: ``address_unusable``.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        if not 0 <= port <= _MAX_PORT:
            raise OSError(f"ports are 0 to {_MAX_PORT}")
        return socket.create_server((host, port), family=family)
    except (OSError, UnicodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
        raise ConfigError(
            "address_unusable",
            f"can not listen on {host!r} port {port}: {reason}",
            hint="choose another --port, or an address of this machine",
        ) from exc


def url_of(listener: socket.socket) -> str:
    """Return the address that a listener is reached at."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(host: str) -> bool:
    """Return whether an address to listen on is reached from this machine only.

    Security: a name other than ``localhost`` counts as reached from elsewhere, whatever it
    resolves to at the moment.
    """
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
