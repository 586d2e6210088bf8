"""The impure part of a write, gathered at the edge: the time, a fresh uid, random letters."""

from __future__ import annotations

import random
from os import urandom

from actors.clock import Clock
from actors.identity import User
from actors.messages import Stamp

# The user and the field manager under which the server itself writes.
SERVER_USER, SERVER_MANAGER = "system:apiserver", "apiserver"
# No vowels, so that chance spells no words.
LETTERS = "bcdfghjklmnpqrstvwxz2456789"


class Stamps:
    def __init__(self, clock: Clock, chance: random.Random | None = None) -> None:
        self._clock = clock
        self._chance = chance or random.SystemRandom()

    def now(self) -> int:
        return self._clock.now()

    def make(self, user: User | str, manager: str, *, suffix: bool = False) -> Stamp:
        letters = "".join(self._chance.choices(LETTERS, k=5)) if suffix else ""
        if isinstance(user, str):
            return Stamp(self._clock.now(), user, manager, fresh_uid(), letters)
        return Stamp(self._clock.now(), user.name, manager, fresh_uid(), letters, user)


def fresh_uid() -> str:
    """A random UUID (version 4), spelled out by hand: uuid.UUID takes three times as long."""
    digits = urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
