"""Who makes a request: a name, a uid, groups and extra facts, all opaque but for the few names below.

Made by the authentication methods, read by authorizers, admission and the journal's record of a write.
Frozen and hashable, so that one user is made per credential and shared by all its requests.
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

    def signed_in(self) -> User:
        """The same user in the group of all who have shown a credential."""
        if self.name == ANONYMOUS or AUTHENTICATED in self.groups or UNAUTHENTICATED in self.groups:
            return self
        return replace(self, groups=(*self.groups, AUTHENTICATED))
