"""Reads stored objects for controllers: collections in pages, the type of an object, what its deletion waits for."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator

from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.declaration.meta import FOREGROUND, ORPHAN
from rewound.actors.kinds.declaration.stored_form import OF_MISFITS
from rewound.actors.kinds.registry import Registry
from rewound.actors.messages import Object
from rewound.actors.runtime.turns import Turn, next_turn
from rewound.actors.store.document import decode
from rewound.actors.store.misfits import report
from rewound.journal.log import Journal
from rewound.journal.records import Row
from rewound.journal.view import View

# About two milliseconds of reading, and the size of the first batch that the journal reads.
PAGE_SIZE = 128
PAGE_BYTES = 1 << 20  # objects may be large

Position = tuple[str, str]  # namespace and name
Page = list[tuple[str, str, Row]]  # namespace, name and row


def next_page(
    view: View, type_id: int, namespace: str | None, after: Position | None
) -> Iterator[tuple[str, str, Row]]:
    """The next objects after a position, at least one; none at the end.

    Each page is read in its own view. A controller that scans all objects must not block the event loop: it waits for
    its next turn between two pages, while no view is open. The feed reports objects that are written at positions that
    the scan has passed.
    """
    if after is None and view.count(type_id, namespace) <= PAGE_SIZE:
        rows = view.rows(type_id, namespace)  # reads no row of the following types
    else:
        # No object has an empty name, so the position of the empty name is before the first object. Without a position,
        # `rows` would read everything at once.
        rows = view.rows(type_id, namespace, after or (namespace or "", ""))
    size = 0
    for count, found in enumerate(rows, 1):
        yield found
        size += len(found[2].body)
        if count == PAGE_SIZE or size >= PAGE_BYTES:
            return


async def take_pages(
    journal: Journal, type_id: int, namespace: str | None, take: Callable[[View, Page], None]
) -> None:
    """Call `take` with all objects of a type, or of one namespace, page by page.

    `take` may get objects again that it took before it raised. A page is a turn: at a start many controllers scan all
    objects at once, and requests wait for one page, not for one of each controller.
    """
    after: Position | None = None
    while True:
        await next_turn()
        with journal.read() as view:
            page = list(next_page(view, type_id, namespace, after))
            if not page:
                return
            try:
                take(view, page)
            except OF_MISFITS:
                _take_singly(journal, type_id, view, page, take)
        after = page[-1][:2]


def _take_singly(
    journal: Journal, type_id: int, view: View, page: Page, take: Callable[[View, Page], None]
) -> None:
    """Take the objects of a page of which `take` cannot read one: without those that it cannot."""
    what = next(name for name, number in journal.types().items() if number == type_id)
    for row in page:
        try:
            take(view, [row])
        except OF_MISFITS as error:
            report(what, row[0], row[1], error)


async def each_stored(journal: Journal, type_id: int, namespace: str | None) -> AsyncGenerator[Object, None]:
    """All objects of a type, or of one namespace, in list order; in turns on the event loop.

    The caller's work on each object counts towards the turn. Objects that change meanwhile may be in either version. A
    caller that may stop before the end closes it (`contextlib.aclosing`).
    """
    after: Position | None = None
    turn = Turn()
    while True:
        with journal.read() as view:
            page = [(row[0], row[1], row[2].body) for row in next_page(view, type_id, namespace, after)]
        if not page:
            return
        for position in page:
            try:
                stored = decode(position[2])
                stored["metadata"]["uid"]
            except OF_MISFITS as error:
                report(f"of type {type_id}:", *position[:2], error)
                continue
            yield stored
            if turn.over():
                await next_turn()
                turn = Turn()
        after = page[-1][:2]


class StoredTypes:
    """Finds the definition of a resource type by its type id, or by the apiVersion and kind of an owner reference.

    Every call reads the current catalog of the registry, because kinds are registered and removed while the
    server runs. No call assigns a type id.
    """

    def __init__(self, registry: Registry, journal: Journal) -> None:
        self._registry = registry
        self._journal = journal
        self._names: dict[int, str] = {}  # by type id; the name of an id never changes

    def __iter__(self) -> Iterator[tuple[int, Definition]]:
        """Every stored type in the catalog."""
        for name, type_id in self._journal.types().items():
            found = self._registry.current.stored_type(name)
            if found is not None:
                yield type_id, found.storage

    def definition(self, type_id: int) -> Definition | None:
        """The definition of the storage version; None if the catalog does not have the type (any more)."""
        if type_id not in self._names:
            self._names = {number: name for name, number in self._journal.types().items()}
        found = self._registry.current.stored_type(self._names.get(type_id, ""))
        return found.storage if found is not None else None

    def of_kind(self, api_version: str, kind: str) -> Definition | None:
        """The definition that an owner reference names; None if there is no such kind."""
        return self._registry.current.of_kind(api_version, kind)

    def type_id(self, definition: Definition) -> int | None:
        return self._journal.type_id(definition.type_name) or None


_DELETION_TIMESTAMP = b'"deletionTimestamp"'
_FINALIZERS = {name: f'"{name}"'.encode() for name in (ORPHAN, FOREGROUND)}


def needs_garbage_collector(body: bytes) -> bool:
    """Whether the object is being deleted and has one of the garbage collector's finalizers.

    Controllers check every committed event and, at start, every object. Therefore a search for bytes decides the common
    case, not being deleted. Only the few objects that contain the bytes are parsed: these can occur anywhere in a body,
    so a hit proves nothing.
    """
    # Not `in`: that first tries to convert the bytes to an integer, which costs an exception.
    return body.find(_DELETION_TIMESTAMP) >= 0 and (_waits_for(body, ORPHAN) or _waits_for(body, FOREGROUND))


def is_in_foreground_deletion(body: bytes) -> bool:
    """Whether the object waits for the deletion of its dependents."""
    return _DELETION_TIMESTAMP in body and _waits_for(body, FOREGROUND)


def deletion_waits_for(stored: Object, finalizer: str) -> bool:
    metadata = stored["metadata"]
    return "deletionTimestamp" in metadata and finalizer in metadata.get("finalizers", ())


def _waits_for(body: bytes, finalizer: str) -> bool:
    return _FINALIZERS[finalizer] in body and deletion_waits_for(decode(body), finalizer)
