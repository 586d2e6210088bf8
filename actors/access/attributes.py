"""The question that authorizers answer: which user wants to do what to which resource or path.

The gateway makes one `Attributes` per request from its route, reviews make one from their spec. Authorizers, and
whoever observes requests, read it.
"""

from __future__ import annotations

from typing import NamedTuple

from actors.identity import User


class Attributes(NamedTuple):
    """A resource request, or a request for a path that is no resource (`is_resource` False).

    A tuple built by position, not a dataclass: one is made per request, a frozen dataclass takes four times as
    long, and keywords cost as much as all the rest of it.
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
