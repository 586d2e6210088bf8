"""Orders the commands for which an actor had no time in a step: the user who has had the least of it is next.

An actor serves all users of a resource. A user whose commands take long, or who sends many, would otherwise delay each
command of another user by all that came before. The commands of one user stay in order. A user that was not waiting
begins with the least time of those that were, so that nobody saves up time.

    alice: 3 commands, 0.020 s; bob: 2 commands, 0.004 s       bob, alice, bob, alice, alice
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from rewound.actors.resource.write import Write


class Backlog:
    __slots__ = ("_served",)

    def __init__(self) -> None:
        self._served: dict[str, float] = {}  # seconds, of the users with commands that wait

    def __bool__(self) -> bool:
        return bool(self._served)

    def clear(self) -> None:
        """Nothing waits any more."""
        self._served.clear()

    def charge(self, write: Write, seconds: float) -> None:
        """Count the time that a command has taken for its user."""
        user = write.command.context.user
        self._served[user] = self._served.get(user, 0.0) + seconds

    def order(self, writes: Sequence[Write]) -> list[Write]:
        """The commands that wait, in the order in which the actor decides them."""
        of_users: dict[str, list[Write]] = {}
        for write in writes:
            of_users.setdefault(write.command.context.user, []).append(write)
        served = self._served
        least = min((served[user] for user in of_users if user in served), default=0.0)
        self._served = {user: served.get(user, least) for user in of_users}
        if len(of_users) == 1:
            return list(writes)
        ordered: list[Write] = []
        lanes = [deque(of_users[user]) for user in sorted(of_users, key=self._served.__getitem__)]
        while lanes:
            ordered += [lane.popleft() for lane in lanes]
            lanes = [lane for lane in lanes if lane]
        return ordered
