"""MCP servers whose tools an agent selects: started, confined, asked, and called.

The protocol library takes a second to import. What needs it is imported in a thread, once, and
only where an agent selects a tool of a server: ``service`` and ``server`` do without it.
"""

from __future__ import annotations

from .calls import ServerCall
from .service import McpService, open_servers

__all__ = ["McpService", "ServerCall", "open_servers"]
