"""Lets writers of one object take turns when they would only make each other start again.

A command that waits outside its actor, for a webhook, a conversion or a thread, is decided on one state of its object.
If another command changes the object meanwhile, it has to start again on the newest state. The first attempt of every
command begins at once: most objects have one writer. The first command that has to start again begins a line, and
from then on the commands of that object wait in it, in the order in which they came, while the first one has its turn.
So N writers need about N rounds and 2 N calls; if all started again each time, it would be N rounds and N * N / 2
calls, and the one with the slowest webhook might never succeed.

A turn ends when its command is decided. After `TURN_SECONDS` the next one begins as well, so that a webhook that hangs
delays nobody for long, not even if it writes to the same object. Commands that need nothing outside the actor do not
wait, until they have overtaken the turn `MAX_OVERTAKEN` times. Commands that name a resourceVersion never wait: by the
time of their turn they would always conflict. Dry runs change nothing, and wait for nobody.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from typing import Any, Final

import trio

from actors.access.remote.deadlines import Deadlines
from actors.errors import Overloaded
from actors.messages import Command, Create, Delete, Patch, Replace, Submit
from actors.resource.current import Key
from actors.resource.replies import Envelope

# Far longer than most webhooks take, far shorter than a client waits.
TURN_SECONDS: Final = 1.0
MAX_OVERTAKEN: Final = 3
# As many as a mailbox holds: each takes some kilobytes.
MAX_WAITING: Final = 4096


class Line:
    """The commands of one object: the one whose turn it is, and those that wait."""

    __slots__ = ("_pass_turn", "first", "key", "overtaken", "until", "waiting")

    def __init__(self, key: Key, pass_turn: Callable[[Line], None]) -> None:
        self.key = key
        self.first: Envelope | None = None
        self.until = 0.0  # when the turn ends, by the clock of trio
        self.overtaken = 0  # how often its object changed during the turn
        self.waiting: list[Envelope] = []  # by their tickets
        self._pass_turn = pass_turn

    def give_turn(self, envelope: Envelope) -> None:
        self.first, self.until, self.overtaken = envelope, trio.current_time() + TURN_SECONDS, 0

    def expire(self) -> None:
        """The turn took too long."""
        if self.waiting:
            self._pass_turn(self)


class _Place:
    """The place of a command in a line; `cancel` gives it up."""

    __slots__ = ("_contention", "_envelope", "_line")

    def __init__(self, contention: Contention, line: Line, envelope: Envelope) -> None:
        self._contention, self._line, self._envelope = contention, line, envelope

    def cancel(self) -> None:
        self._contention.give_up(self._line, self._envelope)


class Contention:
    """The lines of all objects of one resource type."""

    def __init__(
        self,
        deadlines: Deadlines,
        proceed: Callable[[Envelope], None],
        dropped: Callable[[Envelope], None],
    ) -> None:
        """`proceed` is called for a command that has its turn, `dropped` for one that was cancelled before."""
        self._deadlines = deadlines
        self._proceed, self._dropped = proceed, dropped
        self._lines: dict[Key, Line] = {}
        self._waiting = 0
        self._tickets = 0
        self.closed: dict[Key, Line] = {}  # lines that were overtaken so often that all commands wait in them

    def must_wait(self, envelope: Envelope, *, stale: bool) -> bool:
        """Whether a command that is to leave the actor now waits for its turn instead. Overloaded.

        `stale`: it has to start again because its object has changed.
        """
        self._take_ticket(envelope)
        key = _key(envelope.command) if stale or self._lines else None
        if key is None:
            return False
        line = self._lines.get(key)
        if line is None:
            if stale:
                line = self._lines[key] = Line(key, self._pass_turn)
                line.give_turn(envelope)
            return False
        if line.first is envelope:
            self._count_overtaking(line, stale)
            return False
        if envelope.came_back and not stale:
            return False  # it is on its way, and valid so far
        if not line.waiting and trio.current_time() >= line.until:
            self.closed.pop(key, None)
            line.give_turn(envelope)
            return False
        self.wait(line, envelope)
        return True

    def closed_line(self, envelope: Envelope) -> Line | None:
        """Where a command has to wait for its turn before it is decided at all."""
        if envelope.came_back or envelope.command.context.caller is None:
            return None
        key = _key(envelope.command)
        return self.closed.get(key) if key is not None else None

    def wait(self, line: Line, envelope: Envelope) -> None:
        """Let a command wait for its turn. Overloaded."""
        if self._waiting >= MAX_WAITING:
            raise Overloaded
        self._take_ticket(envelope)
        self._waiting += 1
        insort(line.waiting, envelope, key=_ticket)
        envelope.call = _Place(self, line, envelope)
        self._deadlines.add(line, line.until)

    def ended(self, envelope: Envelope) -> None:
        """A command is decided or refused: if it was its turn, it is that of the next one."""
        if self._lines and (key := _key(envelope.command)) is not None:
            line = self._lines.get(key)
            if line is not None and line.first is envelope:
                self._pass_turn(line)

    def give_up(self, line: Line, envelope: Envelope) -> None:
        line.waiting.remove(envelope)
        self._waiting -= 1
        envelope.call = None
        self._dropped(envelope)

    def _count_overtaking(self, line: Line, stale: bool) -> None:
        line.overtaken += stale
        if line.overtaken >= MAX_OVERTAKEN:
            self.closed[line.key] = line

    def _take_ticket(self, envelope: Envelope) -> None:
        if not envelope.ticket:
            self._tickets += 1
            envelope.ticket = self._tickets

    def _pass_turn(self, line: Line) -> None:
        self.closed.pop(line.key, None)
        self._deadlines.remove(line)
        if not line.waiting:
            del self._lines[line.key]
            return
        envelope = line.waiting.pop(0)
        self._waiting -= 1
        line.give_turn(envelope)
        if line.waiting:
            self._deadlines.add(line, line.until)
        envelope.call = None
        self._proceed(envelope)


def _ticket(envelope: Envelope) -> int:
    return envelope.ticket


def _key(command: Command) -> Key | None:
    """The object for which a command may have to wait; None if it never waits."""
    if isinstance(command, Create | Submit) or command.dry_run or _names_version(command):
        return None
    return command.namespace, command.name


def _names_version(command: Replace | Patch | Delete) -> bool:
    """Whether a command has the resourceVersion of its object as a precondition. Some JSON patches have, too."""
    match command:
        case Delete():
            return command.options.resource_version is not None
        case Replace():
            sent: Any = command.object
        case Patch():
            sent = command.patch
    metadata = sent.get("metadata") if isinstance(sent, dict) else None
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    return version not in (None, "", "0")
