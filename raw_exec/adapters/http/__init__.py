"""The runtime as an HTTP service: calls, events, sessions, for several callers at once.

Needs the packages of the extra ``http``.
"""

from .hosting import Hosting, serve_http
from .keys import Key, KeyFile, KeyRing, new_token
from .limits import ServiceLimits

__all__ = ["Hosting", "Key", "KeyFile", "KeyRing", "ServiceLimits", "new_token", "serve_http"]
