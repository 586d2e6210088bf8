"""The impure part of a write, gathered at the edge: the time, a fresh uid, random letters."""

from __future__ import annotations

import random
import uuid

from actors.clock import Clock
from actors.messages import Stamp

# No vowels, so that chance spells no words.
LETTERS = "bcdfghjklmnpqrstvwxz2456789"


class Stamps:
    def __init__(self, clock: Clock, chance: random.Random | None = None) -> None:
        self._clock = clock
        self._chance = chance or random.SystemRandom()

    def make(self, user: str, manager: str, *, suffix: bool = False) -> Stamp:
        letters = "".join(self._chance.choices(LETTERS, k=5)) if suffix else ""
        return Stamp(self._clock.now(), user, manager, str(uuid.uuid4()), letters)
