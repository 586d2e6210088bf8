"""Creates the `WriteContext` of each write: the time, the user, a new uid and a random suffix for generateName."""

from __future__ import annotations

import random
from functools import partial
from math import inf
from os import urandom

from rewound.actors.identity import User
from rewound.actors.messages import WriteContext
from rewound.actors.runtime.clock import Clock

# No vowels, so that no random suffix is a word.
LETTERS = "bcdfghjklmnpqrstvwxz2456789"


class WriteContexts:
    def __init__(self, clock: Clock, source: random.Random | None = None) -> None:
        """With a `source`, uids and suffixes are derived from it: the same writes give the same objects."""
        self._clock = clock
        self.random = source or random.SystemRandom()
        self._new_uid = new_uid if source is None else partial(_uid_of, source)

    def now(self) -> int:
        return self._clock.now()

    def new(
        self,
        user: User | str,
        manager: str,
        *,
        suffix: bool = False,
        large: bool = False,
        annotations: dict[str, str] | None = None,
        webhook_seconds: dict[str, float] | None = None,
        warns: bool = True,
    ) -> WriteContext:
        letters = "".join(self.random.choices(LETTERS, k=5)) if suffix else ""
        if isinstance(user, str):
            return WriteContext(
                self._clock.now(), user, manager, self._new_uid(), letters, large=large, warns=warns
            )
        now, uid = self._clock.now(), self._new_uid()
        return WriteContext(
            now,
            user.name,
            manager,
            uid,
            letters,
            user,
            large,
            (),
            annotations,
            "",
            inf,
            webhook_seconds,
            warns,
        )


class LeaderContext(WriteContext):
    """The context of a write that only the node running the controllers may make."""

    __slots__ = ()


class LeaderContexts(WriteContexts):
    """Creates contexts for controllers of a cluster in which several nodes write."""

    def new(
        self,
        user: User | str,
        manager: str,
        *,
        suffix: bool = False,
        large: bool = False,
        annotations: dict[str, str] | None = None,
        webhook_seconds: dict[str, float] | None = None,
        warns: bool = True,
    ) -> WriteContext:
        context = super().new(
            user,
            manager,
            suffix=suffix,
            large=large,
            annotations=annotations,
            webhook_seconds=webhook_seconds,
            warns=warns,
        )
        return LeaderContext(*context)


def new_uid() -> str:
    """A random UUID (version 4)."""
    try:
        return _unused.pop()
    except IndexError:
        _unused.extend(_new_uids())
        return _unused.pop()


def _uid_of(source: random.Random) -> str:
    return _formatted(f"{source.getrandbits(128):032x}")


def _new_uids() -> list[str]:
    """Create many at once: reading random bytes takes longer than formatting, and uuid.UUID three times as long."""
    digits = urandom(16 * _AT_ONCE).hex()
    return [_formatted(digits[start : start + 32]) for start in range(0, len(digits), 32)]


def _formatted(digits: str) -> str:
    return (
        f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{_VARIANTS[digits[16]]}{digits[17:20]}-{digits[20:]}"
    )


_AT_ONCE = 64
_unused: list[str] = []
# The variant of a UUID is in the two highest bits of this digit.
_VARIANTS = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))
