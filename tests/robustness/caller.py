"""One client: a connection, a chance of its own, and the habit of doing something else each time.

What it does next follows from its seed and from the answers so far. It ends when the server is gone or when it
has done its share.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from tests.robustness.asking import ask, ask_page, question
from tests.robustness.client import Broken, Client, Gone
from tests.robustness.fuse import Fuse
from tests.robustness.history import CREATE, DELETE, DELETE_COLLECTION, GET, REPLACE, Life, Operation, Walk
from tests.robustness.memory import Memory
from tests.robustness.objects import (
    COLORS,
    FINALIZERS,
    KEYS,
    KINDS,
    NAMESPACES,
    Content,
    Key,
    content_of,
    make_token,
    version_of,
)

SHARE = 1500  # requests in one life: some seconds, should the server never die
BREAKS = 20  # connections broken in a row: the server is going
LARGE = 60_000  # bytes of a padding that takes pages of its own
RECENT = 50  # versions that are asked for more often than older ones

Step = Callable[[], None]


class Caller:
    def __init__(
        self, number: int, client: Client, life: Life, memory: Memory, chance: random.Random, fuse: Fuse
    ) -> None:
        self._number = number
        self._client = client
        self._life = life
        self._memory = memory
        self._chance = chance
        self._fuse = fuse
        self._left = SHARE
        self._broken = 0  # in a row
        self.forsaken = False
        self.failure: BaseException | None = None
        self._steps: dict[Step, int] = {
            self._create: 24,
            self._replace: 28,
            self._write_same: 4,
            self._delete: 12,
            self._delete_collection: 2,
            self._get: 10,
            self._list: 5,
            self._page: 6,
            self._list_exact: 5,
            self._leave: 2,
            self._cut_off: 2,
        }

    def run(self) -> None:
        try:
            while self._left > 0 and not self.forsaken:
                (step,) = self._chance.choices(list(self._steps), list(self._steps.values()))
                self._do(step)
        except Gone:
            self.forsaken = True
        except BaseException as error:  # told by whoever joins this thread
            self.failure = error
        finally:
            self._client.close()

    def _do(self, step: Step) -> None:
        try:
            step()
            self._broken = 0
        except Broken:
            self._broken += 1
            self.forsaken = self._broken >= BREAKS

    # One object.

    def _create(self) -> None:
        self._perform(self._operation(CREATE, self._any_key(), write=True))

    def _replace(self) -> None:
        there = list(self._memory.known) or KEYS
        self._perform(self._operation(REPLACE, self._chance.choice(there), write=True, conditional=0.6))

    def _write_same(self) -> None:
        """Write what is there already, as far as anybody knows: that must not make a version."""
        operation = self._operation(REPLACE, self._any_key(), write=True, conditional=0.5)
        known = self._memory.known.get(operation.key)
        if known is not None:
            operation.content = content_of(operation.key.plural, known)
        self._perform(operation)

    def _delete(self) -> None:
        self._perform(self._operation(DELETE, self._any_key(), conditional=0.3))

    def _delete_collection(self) -> None:
        plural = self._chance.choice(list(KINDS))
        namespace = self._chance.choice(NAMESPACES) if KINDS[plural].namespaced else ""
        operation = self._operation(DELETE_COLLECTION, Key(plural, namespace, ""))
        operation.color = self._chance.choice(COLORS)
        self._perform(operation)

    def _get(self) -> None:
        self._perform(self._operation(GET, self._any_key()))

    def _leave(self) -> None:
        """Send a write and be gone before its answer."""
        operation = self._random_write()
        operation.abandoned = True
        with self._begun(operation):
            self._client.leave(*question(operation))

    def _cut_off(self) -> None:
        """Send a part of a write. It must never be there."""
        operation = self._random_write()
        operation.complete = False
        with self._begun(operation):
            method, path, body = question(operation)
            self._client.cut_off(method, path, body or {}, self._chance)

    def _random_write(self) -> Operation:
        verb = self._chance.choice((CREATE, REPLACE, DELETE))
        return self._operation(verb, self._any_key(), write=verb != DELETE)

    def _any_key(self) -> Key:
        return self._chance.choice(KEYS)

    def _operation(self, verb: str, key: Key, *, write: bool = False, conditional: float = 0.0) -> Operation:
        number = next(self._memory.numbers)
        known = self._memory.known.get(key) if self._chance.random() < conditional else None
        return Operation(
            number,
            self._number,
            verb,
            key,
            content=self._content(number) if write else None,
            expected=None if known is None else version_of(known),
        )

    def _content(self, number: int) -> Content:
        chance = self._chance
        padding = chance.randrange(LARGE) if chance.random() < 0.02 else chance.randrange(1500)
        finalizers = chance.choice(((), (), (), FINALIZERS[:1], FINALIZERS))
        return Content(make_token(number, padding), chance.choice(COLORS), finalizers)

    def _perform(self, operation: Operation) -> None:
        with self._begun(operation):
            ask(self._client, operation, self._fuse.passage)
        self._fuse.passage()
        self._memory.learn(operation)

    def _begun(self, operation: Operation) -> _Begun:
        self._left -= 1
        return _Begun(self._life, operation)

    # Collections.

    def _list(self) -> None:
        walk = self._walk()
        versions = self._memory.versions[-RECENT:]
        if versions and self._chance.random() < 0.3:
            walk.version, walk.match = self._chance.choice(versions), "NotOlderThan"
        self._go_on(walk)

    def _page(self) -> None:
        """A list in pages: a new one, or one whose first pages came from a server that was killed."""
        try:
            walk = self._memory.unfinished.pop()
        except IndexError:
            walk = self._walk(limit=self._chance.randrange(1, 5))
        self._go_on(walk)

    def _list_exact(self) -> None:
        versions = self._memory.versions
        if not versions:
            return
        walk = self._walk(limit=self._chance.choice((0, 0, 3)))
        walk.version = self._chance.choice(versions[-RECENT:] if self._chance.random() < 0.7 else versions)
        walk.match = "Exact"
        self._go_on(walk)

    def _walk(self, limit: int = 0) -> Walk:
        plural = self._chance.choice(list(KINDS))
        namespace = self._chance.choice((None, *NAMESPACES)) if KINDS[plural].namespaced else None
        return Walk(plural, namespace, self._chance.choice(("", "", *COLORS)), limit)

    def _go_on(self, walk: Walk) -> None:
        if not walk.pages:
            self._life.walks.append(walk)
        try:
            while not walk.finished:
                self._left -= 1
                ask_page(self._client, walk, self._fuse.passage)
                self._fuse.passage()
                self._memory.learn_page(walk)
        except (Broken, Gone):
            self._memory.leave_unfinished(walk)
            raise


class _Begun:
    """An operation on its way. One that found nobody to be sent to never happened."""

    def __init__(self, life: Life, operation: Operation) -> None:
        self._operation = operation
        operation.sent = time.monotonic()
        life.operations.append(operation)

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is Gone:
            self._operation.complete = False
