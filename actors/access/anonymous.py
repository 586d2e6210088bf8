"""The caller without credentials: a user like any other, with rights of its own and no more."""

from __future__ import annotations

from actors.identity import ANONYMOUS, UNAUTHENTICATED, User

NOBODY = User(ANONYMOUS, groups=(UNAUTHENTICATED,))
