"""The registry over HTTP: GraphQL at ``/graphql``, device logins at ``/oauth/device/…``.

Needs the packages of the extra ``contracts``. Contract source: registry wire interface.
"""

from .app import make_app
from .limits import ServerLimits

__all__ = ["ServerLimits", "make_app"]
