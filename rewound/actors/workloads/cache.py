"""The objects that workload controllers read: decoded once for all of them, and never older than their own writes.

`Cache` follows the feed, which calls it for every committed batch before the writer of that batch gets its reply. So a
controller that has awaited a write finds it in the cache, and a decision without an `await` in between sees one
consistent state. Controllers need no expectations.

Objects are in their stored form, without managedFields. They are shared and must not be changed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from typing import Final

import trio

from rewound.actors.controllers.context import ControllerContext
from rewound.actors.controllers.loop import RetryLater
from rewound.actors.controllers.stored_objects import Page, take_pages
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.declaration.stored_form import OF_MISFITS, misfit, misfit_read
from rewound.actors.messages import Object
from rewound.actors.runtime.turns import Turn, next_turn
from rewound.actors.store.document import decode
from rewound.actors.store.misfits import report
from rewound.journal.records import Event
from rewound.journal.view import View

logger = logging.getLogger(__name__)

Key = tuple[str, str]  # namespace and name
# Called with an object before and after a change; None: it did not exist, or was removed.
Listener = Callable[[Object | None, Object | None], None]
_NOTHING: Final[dict[Key, Object]] = {}


def key_of(stored: Object) -> Key:
    metadata = stored["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def controller_of(stored: Object) -> Object | None:
    """The owner reference of the controller that manages the object."""
    for reference in stored["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return reference  # type: ignore[no-any-return]
    return None


class LeftOut(RetryLater):
    """An object cannot be used, because it is stored in a form that its kind does not have."""

    def __init__(self, plural: str, namespace: str, name: str, why: str) -> None:
        super().__init__(
            f"{plural} {namespace}/{name} is stored in a form that its kind does not have: {why}"
        )


class Index:
    """The objects of a collection, indexed by the keys that a function returns for each."""

    def __init__(self, keys_of: Callable[[Object], Iterable[Hashable]]) -> None:
        self._keys_of = keys_of
        self._found: dict[Hashable, dict[Key, Object]] = {}

    def get(self, key: Hashable) -> Collection[Object]:
        """The objects with this key, in the order in which they got it."""
        return self._found.get(key, _NOTHING).values()

    def check(self, new: Object | None) -> None:
        """Raise what `replace` would."""
        if new is not None:
            tuple(self._keys_of(new))

    def replace(self, position: Key, old: Object | None, new: Object | None) -> None:
        after = dict.fromkeys(self._keys_of(new)) if new is not None else {}
        if old is not None:
            for key in self._keys_of(old):
                if key not in after:
                    objects = self._found[key]
                    del objects[position]
                    if not objects:
                        del self._found[key]
        for key in after:
            assert new is not None
            self._found.setdefault(key, {})[position] = new


class CachedType:
    """All objects of one type."""

    def __init__(self, definition: Definition, type_id: int) -> None:
        self.definition = definition
        self.type_id = type_id
        self._objects: dict[Key, Object] = {}
        self._left_out: dict[Key, str] = {}  # why objects are not used
        self._by_namespace = Index(lambda stored: (stored["metadata"].get("namespace", ""),))
        self._by_controller = Index(_controller_uid)
        self._indexes = [self._by_namespace, self._by_controller]
        self._by_function: dict[Callable[[Object], Iterable[Hashable]], Index] = {}
        self._listeners: list[Listener] = []
        self.version = 0  # grows with every change

    def get(self, namespace: str, name: str) -> Object | None:
        """Raises LeftOut for an object that exists but cannot be used: nothing may be decided as if it did not."""
        stored = self._objects.get((namespace, name))
        if stored is None and self._left_out and (namespace, name) in self._left_out:
            raise LeftOut(self.definition.plural, namespace, name, self._left_out[namespace, name])
        return stored

    def __iter__(self) -> Iterator[Object]:
        return iter(self._objects.values())

    def __len__(self) -> int:
        return len(self._objects)

    async def visit(self, take: Callable[[Object], object]) -> None:
        """Call `take` with every object, in turns on the event loop. Listeners get concurrent changes."""
        turn = Turn()
        for position in tuple(self._objects):
            stored = self._objects.get(position)
            if stored is not None:
                take(stored)
            if turn.over():
                await next_turn()
                turn = Turn()

    def in_namespace(self, namespace: str) -> Collection[Object]:
        return self._by_namespace.get(namespace)

    def controlled_by(self, uid: str) -> Collection[Object]:
        """The objects whose controller has this uid."""
        return self._by_controller.get(uid)

    def uncontrolled(self, namespace: str) -> Collection[Object]:
        """The objects of a namespace that no controller manages."""
        return self._by_controller.get(("", namespace))

    def listen(self, listener: Listener) -> None:
        """Call `listener` with every change from now on; it adds keys to a queue, or counts, and returns."""
        self._listeners.append(listener)

    def index(self, keys_of: Callable[[Object], Iterable[Hashable]]) -> Index:
        """The index by a function that returns the distinct keys of an object; one index per function."""
        found = self._by_function.get(keys_of)
        if found is None:
            found = self._by_function[keys_of] = Index(keys_of)
            for position, stored in self._objects.items():
                found.replace(position, None, stored)
            self._indexes.append(found)
        return found

    def take(self, event: Event) -> None:
        """Apply a committed change, and notify the listeners."""
        old = self._objects.get((event.namespace, event.name))
        if old is not None and int(old["metadata"]["resourceVersion"]) >= event.offset:
            return  # already read from the journal, or passed a second time
        new = None if event.removed else self._read(event)
        if old is None and new is None:
            self._left_out.pop((event.namespace, event.name), None) if event.removed else None
            return
        if not self._put_if_usable((event.namespace, event.name), old, new):
            new = None
            if old is None:
                return
        for listener in self._listeners:
            try:
                listener(old, new)
            except Exception:  # the other controllers must not lose the change
                where = f"{event.namespace}/{event.name}" if event.namespace else event.name
                logger.exception("a controller broke on a change of %s %s", self.definition.plural, where)

    def put(self, position: Key, body: bytes) -> None:
        """Add an object read from the journal, unless it does not have the form of its kind."""
        old, new = self._objects.get(position), self._checked(position, body)
        if new is not None or old is not None:
            self._put_if_usable(position, old, new)

    def _read(self, event: Event) -> Object | None:
        """The object of an event. This server has checked it, unless it is one that another writer has stored."""
        position = event.namespace, event.name
        if position not in self._left_out:
            return _decoded(event.body)
        return self._checked(position, event.body)

    def _checked(self, position: Key, body: bytes) -> Object | None:
        self._left_out.pop(position, None)
        try:
            stored = decode(body)
            problem = misfit_read(self.definition, *position, body, stored)
        except OF_MISFITS:
            stored, problem = {}, misfit(self.definition, *position, body)
        if problem:
            self._leave_out(position, problem)
            return None
        stored["metadata"].pop("managedFields", None)
        return stored

    def _leave_out(self, position: Key, why: object) -> None:
        report(self.definition.plural, *position, why)
        self._left_out[position] = str(why)

    def _put_if_usable(self, position: Key, old: Object | None, new: Object | None) -> bool:
        """Whether all indexes could read the object; without it they are as if it did not exist."""
        try:
            for index in self._indexes if new is not None else ():
                index.check(new)
        except OF_MISFITS as error:
            self._leave_out(position, error)
            if old is not None:
                self._put(position, old, None)
            return False
        self._put(position, old, new)
        return True

    def clear(self) -> None:
        self._left_out.clear()
        for position, stored in tuple(self._objects.items()):
            self._put(position, stored, None)

    def _put(self, position: Key, old: Object | None, new: Object | None) -> None:
        if new is None:
            self._objects.pop(position, None)
        else:
            self._objects[position] = new
        self.version += 1
        for index in self._indexes:
            index.replace(position, old, new)


class Cache:
    def __init__(self, context: ControllerContext) -> None:
        self._journal = context.journal
        self._feed = context.feed
        self._catalog = context.registry.current
        self._types: dict[str, CachedType] = {}
        self._by_id: dict[int, CachedType] = {}
        self._loaded = trio.Event()

    def collection(self, type_name: str) -> CachedType:
        """The objects of a type, such as `pods` or `deployments.apps`; call it before `run`."""
        found = self._types.get(type_name)
        if found is None:
            definition = self._catalog.storage(type_name)
            found = CachedType(definition, self._journal.type_id(definition.type_name))
            self._types[type_name] = self._by_id[found.type_id] = found
        return found

    async def loaded(self) -> None:
        """Wait until all stored objects are loaded."""
        await self._loaded.wait()

    async def run(self) -> None:
        """Load the stored objects, then follow changes, forever."""
        self._feed.follow(self._observe, frozenset(self._by_id))
        try:
            for one in self._types.values():
                await self._load(one)
            self._loaded.set()
            await trio.sleep_forever()
        finally:
            self._feed.unfollow(self._observe)
            if self._loaded.is_set():  # otherwise controllers still wait for the load
                self._loaded = trio.Event()
            for one in self._types.values():
                one.clear()

    def _observe(self, events: Sequence[Event]) -> None:
        types = self._by_id
        for event in events:
            concerned = types.get(event.type_id)
            if concerned is not None:
                concerned.take(event)

    async def _load(self, one: CachedType) -> None:
        def put(view: View, page: Page) -> None:
            for namespace, name, row in page:
                one.put((namespace, name), row.body)

        await take_pages(self._journal, one.type_id, None, put)


def _decoded(body: bytes) -> Object:
    stored = decode(body)
    stored["metadata"].pop("managedFields", None)
    return stored


def _controller_uid(stored: Object) -> tuple[Hashable]:
    reference = controller_of(stored)
    if reference is None:
        return (("", stored["metadata"].get("namespace", "")),)
    return (reference["uid"],)
