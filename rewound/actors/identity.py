"""Who makes a request: user name, uid, groups and extra, all opaque except the few names below.

Authentication methods create a `User`; authorizers, admission and the journal read it. It is frozen and hashable, so
that all requests with one credential share one object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

ANONYMOUS = "system:anonymous"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
MASTERS = "system:masters"
SERVER_USER = "system:apiserver"  # the server itself; `Names.server_manager` is its field manager
NODES = "system:nodes"
NODE_PREFIX = "system:node:"  # prefix of the user names of nodes


class User(msgspec.Struct, frozen=True):
    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @classmethod
    def from_fields(
        cls,
        name: str | None,
        uid: str | None,
        groups: Iterable[str] | None,
        extra: Mapping[str, Iterable[str] | None] | None,
    ) -> User:
        """Return the user that an object describes. Go clients write nil slices as null, also as values of `extra`."""
        pairs = tuple((key, tuple(values or ())) for key, values in (extra or {}).items())
        return cls(name or "", uid or "", tuple(groups or ()), pairs)

    def with_authenticated_group(self) -> User:
        """Return this user with the group system:authenticated added, unless the user is anonymous."""
        if self.name == ANONYMOUS or AUTHENTICATED in self.groups or UNAUTHENTICATED in self.groups:
            return self
        return replace(self, groups=(*self.groups, AUTHENTICATED))


def node_of(user: User) -> str | None:
    """Return the name of the node that this user is: "" for a node without a name, None for all other users."""
    name = user.name
    return name[len(NODE_PREFIX) :] if name.startswith(NODE_PREFIX) and NODES in user.groups else None
