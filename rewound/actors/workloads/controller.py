"""The base of workload controllers.

    class ReplicaSets(WorkloadController):
        name, account = "replicaset", "replicaset-controller"

        def __init__(self, parts: Parts) -> None:
            super().__init__(parts)
            self._sets = self.keyed_by("replicasets.apps")
            self._pods = self.dependents("pods", self._sets)

        async def reconcile(self, key: Key) -> None: ...

A controller reads only the cache. It decides without an `await` between what it reads and what it then writes; after a
write it reads again. The loop retries a key whose write fails the version check (`Conflict`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

import trio

from rewound.actors.controllers.client import Client
from rewound.actors.controllers.context import ControllerContext
from rewound.actors.controllers.namespace_slots import shared_slots
from rewound.actors.controllers.work_queue import WorkQueue
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.declaration.meta import LabelMatcher, label_selector_matches
from rewound.actors.kinds.values.times import seconds_text
from rewound.actors.messages import Object
from rewound.actors.runtime.large_work import is_large_object
from rewound.actors.runtime.steps import Steps, exhausted, parts_of
from rewound.actors.runtime.turns import in_turns
from rewound.actors.workloads.cache import Cache, CachedType, Key, controller_of, key_of
from rewound.actors.workloads.pod_room import PodRoom
from rewound.actors.workloads.recorder import EventWriter, Recorder
from rewound.journal.records import Event

MANY: Final = 200  # pods
SECONDS_FOR_EACH: Final = 0.00002
CHANGED: Final = "/changed"  # takes the place of a name in keys; no object can have this name
_FEW_OWNERS: Final = 20
_FEW_REQUIREMENTS: Final = 100
T = TypeVar("T")
_FEW_VALUES: Final = 1000  # of one requirement: a list of labels is searched for each


@dataclass(frozen=True, slots=True)
class Parts:
    """Shared by all workload controllers of a server."""

    context: ControllerContext
    cache: Cache
    events: EventWriter
    room: PodRoom

    @classmethod
    def of(cls, context: ControllerContext) -> Parts:
        cache = Cache(context)
        return cls(context, cache, EventWriter(context), PodRoom(context, cache))


class Pace:
    """Limits how often a pass reads all pods of a key if they are many: each change of one triggers a pass.

    A pass takes a few microseconds of CPU time per pod, so passes of one key take a quarter of a CPU at most, however
    many pods a user has.
    """

    def __init__(self, queue: WorkQueue[Key], at_least: float = 0.0) -> None:
        """`at_least`: seconds between two passes over `MANY` pods."""
        self._queue = queue
        self._at_least = at_least
        self._passed: dict[Key, float] = {}  # the last pass, by trio's clock

    def is_too_soon(self, key: Key, count: int, sharing: int = 1) -> bool:
        """Whether a pass over so many pods comes too soon after the last one; then the key is due later.

        `sharing`: how many keys read the same pods, and share the allowed time.
        """
        if count < MANY and count * sharing < 10 * MANY:
            self._passed.pop(key, None)
            return False
        now = trio.current_time()
        due = self._passed.get(key, -math.inf) + max(self._at_least, count * sharing * SECONDS_FOR_EACH)
        if now < due:
            self._queue.add_after(key, due - now)
            return True
        self._passed[key] = now
        return False

    def forget(self, key: Key) -> None:
        self._passed.pop(key, None)


_PAIRS: Final = 128  # of a pod and an object that selects it, which are handled in one step


class OwnerFinder:
    """Finds the objects of a namespace that select a changed pod.

    Listeners are called for every change of every pod. So if there are more than a few such objects, they only record
    the change under a special key of the namespace, whose pass takes turns.
    """

    def __init__(
        self,
        queue: WorkQueue[Key],
        owners: CachedType,
        selecting: Callable[[Object], Callable[[Object], bool]],
        take: Callable[[Object, Sequence[Object]], None],
        take_more: Callable[[Object, Sequence[Object]], None] | None = None,
    ) -> None:
        """`selecting` returns a predicate for pods; `take` gets the pod and the objects that select it.

        Of many such objects it gets the first part, and `take_more` (or `take`) the others, in steps.
        """
        self._queue, self._owners, self._selecting, self._take = queue, owners, selecting, take
        self._take_more = take_more or take
        # The pods of each namespace by name and labels, by which they are selected.
        self._deferred: dict[str, dict[tuple[str, frozenset[tuple[str, str]]], Object]] = {}
        # The objects of each namespace with their predicates, of one version of `owners`; None: too many.
        self._predicates: dict[str, list[tuple[Object, Callable[[Object], bool]]] | None] = {}
        self._version = -1

    def changed(self, old: Object | None, new: Object | None) -> None:
        if old is not None and (
            new is None or old["metadata"].get("labels") != new["metadata"].get("labels")
        ):
            self._find_or_defer(old)
        if new is not None:
            self._find_or_defer(new)

    def _find_or_defer(self, pod: Object) -> None:
        namespace, name = key_of(pod)
        if self._version != self._owners.version:
            self._predicates.clear()
            self._version = self._owners.version
        if namespace not in self._predicates:
            self._predicates[namespace] = self._predicates_in(namespace)
        predicates = self._predicates[namespace]
        if predicates is not None:
            self._take(pod, [owner for owner, selects in predicates if selects(pod)])
            return
        labels = frozenset((pod["metadata"].get("labels") or {}).items())
        self._deferred.setdefault(namespace, {})[name, labels] = pod
        self._queue.add((namespace, CHANGED))

    def _predicates_in(self, namespace: str) -> list[tuple[Object, Callable[[Object], bool]]] | None:
        owners = self._owners.in_namespace(namespace)
        if len(owners) > _FEW_OWNERS or any(is_long(one["spec"].get("selector")) for one in owners):
            return None
        return [(one, self._selecting(one)) for one in owners]

    async def find_deferred(self, namespace: str) -> None:
        """Handle the recorded changes; called for the key CHANGED of a namespace."""
        pods = self._deferred.pop(namespace, {}).values()
        await in_turns(self.find(self._owners.in_namespace(namespace), [(pod, []) for pod in pods]))

    def find(self, owners: Iterable[Object], found: list[tuple[Object, list[Object]]]) -> Steps[None]:
        """Find the objects that select pods, and take them. `found`: the pods, each with an empty list for these."""
        for owner in tuple(owners):
            selects = self._selecting(owner)
            for part in parts_of(found):
                for pod, selected_by in part:
                    if selects(pod):
                        selected_by.append(owner)
                yield
        taken = 0  # pairs of a pod and an object, since the last pause
        for pod, selected_by in found:
            take = self._take
            for some in parts_of(selected_by) if selected_by else ((),):
                take(pod, some)
                take = self._take_more
                taken += 1 + len(some)
                if taken >= _PAIRS:
                    yield
                    taken = 0


def is_long(selector: Object | None) -> bool:
    """Whether matching a label selector takes long; that of a Service has only labels."""
    requirements = (selector or {}).get("matchExpressions", ())
    return len(requirements) > _FEW_REQUIREMENTS or any(
        len(one.get("values", ())) > _FEW_VALUES for one in requirements
    )


def may_match(selector: Object, labels: Mapping[str, str]) -> bool:
    """For listeners, which are called for every change: a long selector is left to the pass of its object."""
    return is_long(selector) or label_selector_matches(selector, labels)


class WorkloadController:
    name: str  # as in --controllers and v1.25
    account: str  # the service account that it writes as
    component: str = ""  # the source of its Events; "": the account
    observed_types: frozenset[int] = frozenset()  # none: the cache reports changes

    def __init__(self, parts: Parts) -> None:
        context = parts.context
        self.names = context.names
        self.release = context.release
        self.cache = parts.cache
        self.random = context.write_contexts.random
        self._clock = context.clock
        self.client = Client.of_account(
            context.directory,
            context.write_contexts,
            context.names,
            self.account,
            parts.room.check,
            shared_slots(),
        )
        self.recorder = Recorder(parts.events, self.client, self.component or self.account)
        self._large_work = context.directory.large_work
        self.queue: WorkQueue[Key] = WorkQueue()
        self._keyed: list[CachedType] = []
        self._adopting: list[OwnerFinder] = []

    def keyed_by(self, type_name: str) -> CachedType:
        """The objects whose keys are reconciled: every change of one adds its key, and so does the start."""
        collection = self.cache.collection(type_name)
        collection.listen(partial(_add_key, self.queue))
        self._keyed.append(collection)
        return collection

    def dependents(self, type_name: str, owners: CachedType) -> CachedType:
        """The objects that `owners` control: a change of one adds the key of its owner.

        A change of an object without a controller adds the keys of those that may adopt it. If these are many, it adds
        a key with the name CHANGED instead, for which `reconcile` must call `find_owners_of_changed`.
        """
        collection = self.cache.collection(type_name)
        adopting = OwnerFinder(self.queue, owners, _may_adopt, partial(_add_keys, self.queue))
        self._adopting.append(adopting)
        collection.listen(partial(_add_owners, self.queue, owners, adopting))
        return collection

    async def find_owners_of_changed(self, namespace: str) -> None:
        for one in self._adopting:
            await one.find_deferred(namespace)

    async def work_on(self, stored: Object, steps: Steps[T]) -> T:
        """Do long work on an object: in the worker thread if it is large, else in turns. It may change meanwhile."""
        if is_large_object(stored):
            return await self._large_work.run(self.client.user, exhausted, steps)
        return await in_turns(steps)

    async def decoded(self, definition: Definition, new: Object) -> Object:
        """An object to be written, with the defaults of its kind."""
        decode = definition.schema.decode_object
        if is_large_object(new):
            return (await self._large_work.run(self.client.user, decode, new)).object
        return decode(new).object

    def now(self) -> int:
        """The time in microseconds since 1970."""
        return self._clock.now()

    def now_text(self) -> str:
        """The current time as text, in seconds, as in objects."""
        return seconds_text(self._clock.now())

    def observe(self, events: Sequence[Event]) -> None:
        """Do nothing: see `observed_types`."""

    async def catch_up(self) -> None:
        await self.cache.loaded()
        for collection in self._keyed:
            await collection.visit(lambda stored: self.queue.add(key_of(stored)))

    async def reconcile(self, key: Key) -> None:
        raise NotImplementedError


def _add_key(queue: WorkQueue[Key], old: Object | None, new: Object | None) -> None:
    stored = new if new is not None else old
    assert stored is not None
    queue.add(key_of(stored))


def _may_adopt(owner: Object) -> Callable[[Object], bool]:
    matcher = LabelMatcher(owner["spec"].get("selector") or {})
    return lambda dependent: matcher.matches(dependent["metadata"].get("labels") or {})


def _add_keys(queue: WorkQueue[Key], _: Object, owners: Sequence[Object]) -> None:
    for owner in owners:
        queue.add(key_of(owner))


def _add_owners(
    queue: WorkQueue[Key],
    owners: CachedType,
    adopting: OwnerFinder,
    old: Object | None,
    new: Object | None,
) -> None:
    before = None if old is None else controller_of(old)
    after = None if new is None else controller_of(new)
    if before is not None and before != after:
        _add_owner(queue, owners, old, before)
    if after is not None:
        _add_owner(queue, owners, new, after)
    elif new is not None:
        labels = new["metadata"].get("labels") or {}
        if before is not None or old is None or labels != (old["metadata"].get("labels") or {}):
            adopting.changed(None, new)


def _add_owner(
    queue: WorkQueue[Key], owners: CachedType, dependent: Object | None, reference: Object
) -> None:
    if dependent is None or reference["kind"] != owners.definition.kind:
        return
    owner = owners.get(dependent["metadata"].get("namespace", ""), reference["name"])
    if owner is not None and owner["metadata"]["uid"] == reference["uid"]:
        queue.add(key_of(owner))
