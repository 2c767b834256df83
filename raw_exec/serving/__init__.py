"""What every server of this package shares: its socket, its loop, its rates, its doorkeepers.

Needs hypercorn, which the extras ``contracts`` and ``http`` bring.
"""

from .checks import (
    AllowedHosts,
    BearerOnly,
    LocalOnly,
    allowed_hosts,
    bearer_token,
    identify,
    token_digest,
)
from .listener import is_loopback, open_listener, url_of
from .rates import RateLimiter
from .running import run_server, serve_app, stop_on_signals

__all__ = [
    "AllowedHosts",
    "BearerOnly",
    "LocalOnly",
    "RateLimiter",
    "allowed_hosts",
    "bearer_token",
    "identify",
    "is_loopback",
    "open_listener",
    "run_server",
    "serve_app",
    "stop_on_signals",
    "token_digest",
    "url_of",
]
