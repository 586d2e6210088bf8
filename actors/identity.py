"""Who makes a request: user name, uid, groups and extra, all opaque except the few names below.

Authentication methods create a `User`; authorizers, admission and the journal read it. It is frozen and hashable, so
that all requests with one credential share one object.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

ANONYMOUS = "system:anonymous"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
MASTERS = "system:masters"


@dataclass(frozen=True, slots=True)
class User:
    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def with_authenticated_group(self) -> User:
        """The same user with the group system:authenticated, unless the user is anonymous."""
        if self.name == ANONYMOUS or AUTHENTICATED in self.groups or UNAUTHENTICATED in self.groups:
            return self
        return replace(self, groups=(*self.groups, AUTHENTICATED))
