"""Writes that have to wait, for a webhook, a conversion or the worker thread: each continues in the task of its caller.

A write that waits is decided on one state of its object. If another write changes the object meanwhile, it has to be
decided again on the newest state. The first attempt of every write begins at once: most objects have one writer. The
first write that has to be decided again opens a line for its object. From then on the writes of that object wait in
that line, in the order in which they came, while the first one has its turn. So N writers need about N rounds and 2 N
calls. If all retried each time, it would be N rounds and N * N / 2 calls, and the one with the slowest webhook might
never succeed.

A turn ends when its write is decided. After `TURN_SECONDS` the next write begins as well, so that a webhook that hangs
delays nobody for long, not even if it writes to the same object. Writes that wait for nothing take no turn, until they
have changed the object `MAX_OVERTAKEN` times during one turn. Writes that name a resourceVersion never wait: by the
time of their turn they would always conflict. Dry runs change nothing, and wait for nobody.
"""

from __future__ import annotations

from bisect import insort
from typing import Any, Final
from weakref import WeakSet

import trio

from rewound.actors.errors import Overloaded, RequestError, ShuttingDown, WriteTimedOut
from rewound.actors.messages import Command, Create, Delete, Patch, Replace, Submit
from rewound.actors.resource.current import Key
from rewound.actors.resource.write import Write, leave_actor
from rewound.actors.store.committer import Commits

# Far longer than most webhooks take, far shorter than a client waits.
TURN_SECONDS: Final = 1.0
MAX_OVERTAKEN: Final = 3
# As many as a mailbox holds: each takes some kilobytes.
MAX_WAITING: Final = 4096


class WaitingWrites:
    """The writes of one actor that continue in the tasks of their callers, and when they may."""

    def __init__(self, committer: Commits) -> None:
        self._committer = committer
        self.turns = ObjectTurns()
        self._writes: WeakSet[Write] = WeakSet()  # weak: a caller may never wait for the reply
        self._unblocked = trio.Event()
        self._unblocked.set()

    def __bool__(self) -> bool:
        return bool(self._writes)

    @property
    def is_blocked(self) -> bool:
        return not self._unblocked.is_set()

    def block(self) -> None:
        """Let no write continue: the actor has crashed, or has not read its state yet."""
        if self._unblocked.is_set():
            self._unblocked = trio.Event()

    def unblock(self) -> None:
        self._unblocked.set()

    def add(self, write: Write) -> None:
        write.has_left = True
        self._writes.add(write)

    def remove(self, write: Write) -> None:
        """A write is decided or refused: if it had its turn, the next one has it."""
        self._writes.discard(write)
        self.turns.end(write)

    def refuse_all(self, error: type[RequestError]) -> None:
        for write in list(self._writes):
            write.refuse(error())

    async def leave(self, write: Write, *, retry: bool = False) -> bool:
        """Continue in the task of the caller, and there in turn with other writers of the object.

        `retry`: an earlier attempt waited for an answer, and its object has changed meanwhile. Returns whether the
        write had to wait for its turn. Raises ShuttingDown, WriteTimedOut or Overloaded.
        """
        if not write.has_left:
            if write.is_abandoned:
                raise ShuttingDown
            if write.command.context.deadline <= trio.current_time():
                raise WriteTimedOut(requested=True)
            self.add(write)
            await leave_actor()
        waited = await self.turns.take(write, retry=retry)
        await self.resume()
        return waited

    async def resume(self) -> None:
        """Call this before a write that has waited is decided further. No checkpoint, unless it has to wait.

        The write may be cancelled, the actor may have crashed, and the committer may be about to change the state.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        while True:
            if not self._unblocked.is_set():
                await self._unblocked.wait()
            elif (pause := self._committer.pause) is not None:
                await pause.wait()
            else:
                return


class _Place:
    """The place of a write in a line."""

    __slots__ = ("moved", "ticket", "write")

    def __init__(self, write: Write) -> None:
        self.write = write
        self.ticket = write.ticket
        self.moved = trio.Event()  # the write has its turn, or is the next one


class _Line:
    """The writes of one object: the one that has its turn, and those that wait."""

    __slots__ = ("first", "key", "overtaken", "places", "until")

    def __init__(self, key: Key, first: Write) -> None:
        self.key = key
        self.places: list[_Place] = []  # by their tickets
        self.give_turn(first)

    def give_turn(self, write: Write) -> None:
        self.first = write
        self.until = trio.current_time() + TURN_SECONDS
        self.overtaken = 0  # how often the object changed during the turn


class ObjectTurns:
    """The lines of all objects of one resource type."""

    def __init__(self) -> None:
        self._lines: dict[Key, _Line] = {}
        self._closed: set[Key] = set()  # of lines that were overtaken so often that all writes wait in them
        self._waiting = 0
        self._tickets = 0

    def must_wait(self, write: Write) -> bool:
        """Whether a write has to wait for its turn before it is decided at all."""
        if not self._closed or write.command.context.caller is None:
            return False
        return _key(write.command) in self._closed

    async def take(self, write: Write, *, retry: bool = False) -> bool:
        """Wait for the turn of a write that is about to wait for an answer, if its object has a line.

        `retry`: it is decided again because its object has changed. Returns whether it had to wait. Raises Overloaded.
        """
        if not write.ticket:
            self._tickets += 1
            write.ticket = self._tickets
        key = _key(write.command) if retry or self._lines else None
        if key is None:
            return False
        line = self._lines.get(key)
        if line is None:
            if retry:
                self._lines[key] = _Line(key, write)
            return False
        if line.first is write:
            line.overtaken += retry
            if line.overtaken >= MAX_OVERTAKEN:
                self._closed.add(key)
            return False
        if not line.places and trio.current_time() >= line.until:
            self._closed.discard(key)
            line.give_turn(write)
            return False
        await self._wait(line, write)
        return True

    def end(self, write: Write) -> None:
        """Give the turn to the next write, if this one has it."""
        if self._lines and (key := _key(write.command)) is not None:
            line = self._lines.get(key)
            if line is not None and line.first is write:
                self._pass_turn(line)

    async def _wait(self, line: _Line, write: Write) -> None:
        if self._waiting >= MAX_WAITING:
            raise Overloaded
        self._waiting += 1
        place = _Place(write)
        insort(line.places, place, key=_ticket)
        try:
            while line.first is not write:
                if line.places[0] is not place:
                    await place.moved.wait()
                else:
                    with trio.move_on_at(line.until):
                        await place.moved.wait()
                    if line.first is not write and trio.current_time() >= line.until:
                        self._pass_turn(line)
                place.moved = trio.Event()
        finally:
            self._waiting -= 1
            if place in line.places:  # its caller has gone, or its time is over
                line.places.remove(place)
                if line.places:
                    line.places[0].moved.set()

    def _pass_turn(self, line: _Line) -> None:
        self._closed.discard(line.key)
        if not line.places:
            del self._lines[line.key]
            return
        following = line.places.pop(0)
        line.give_turn(following.write)
        following.moved.set()
        if line.places:
            line.places[0].moved.set()


def _ticket(place: _Place) -> int:
    return place.ticket


def _key(command: Command) -> Key | None:
    """The object for which a write may have to wait; None if it never waits."""
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
