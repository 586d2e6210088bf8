"""The user of requests without credentials: authorized like any other, by its name and group."""

from __future__ import annotations

from actors.identity import ANONYMOUS, UNAUTHENTICATED, User

ANONYMOUS_USER = User(ANONYMOUS, groups=(UNAUTHENTICATED,))
