"""The attributes of a request that authorizers decide on: user, verb, and resource or path.

The gateway creates one `Attributes` per request from its route, access reviews create one from their spec. Authorizers
and request observers read it.
"""

from __future__ import annotations

from typing import NamedTuple

from actors.identity import User


class Attributes(NamedTuple):
    """A resource request, or a non-resource request (`is_resource` False).

    A tuple, built with positional arguments: every request creates one, a frozen dataclass takes four times as long,
    and keyword arguments double the cost.
    """

    user: User
    verb: str  # get, list, create, ...; for a path the HTTP method in lower case
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    is_resource: bool = True
