"""API priority and fairness: finds the flow of a request from the stored FlowSchemas and PriorityLevelConfigurations.

The flow of a request depends only on its user, verb, resource and namespace (or path), so it is cached by these. A
change of the configuration clears the cache; the next request reads the configuration again. Shuffle sharding decides
which queues of its level a flow may use, `list_seats` and `body_seats` how many seats a request takes.
"""

from __future__ import annotations

import time
from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Any, Final

from rewound.actors.access.authorize import Attributes
from rewound.actors.flowcontrol.configuration import Configuration, LevelSettings, SchemaSettings, configure
from rewound.actors.flowcontrol.initial_objects import flow_schema_type, priority_level_type
from rewound.actors.flowcontrol.leases import Holder
from rewound.actors.flowcontrol.seats import BEYOND, Flow, Level, SchemaCounts, Seats
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.registry import Registry
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.store.document import decode
from rewound.actors.store.feed import Feed
from rewound.actors.store.misfits import each_usable
from rewound.journal.log import Journal
from rewound.journal.records import Event

# The cache is cleared when it is full; long paths are not cached.
_MAX_FLOWS: Final = 4096
_LONGEST_PATH: Final = 256
LONG_RUNNING: Final = frozenset({"attach", "exec", "log", "portforward", "proxy"})  # subresources
_UNCLASSIFIED: Final = Flow(
    Level(LevelSettings("", "", exempt=True)), SchemaCounts("", ""), (), None, limited=False
)

Mark = Callable[[str, str], Any]  # takes the uids of a FlowSchema and of its level


class PriorityAndFairness(Seats):
    def __init__(
        self,
        names: Names,
        registry: Registry,
        journal: Journal,
        feed: Feed,
        seats: int,
        mark: Mark,
        holder: Holder | None = None,
        *,
        borrows: bool = False,
    ) -> None:
        """`borrows`: levels borrow seats that others do not use."""
        super().__init__(holder=holder, borrows=borrows, beyond=BEYOND)
        self._names, self._registry, self._journal = names, registry, journal
        self._total_seats = seats
        self._mark = mark
        self._types = configuration_types(names, journal)
        self._flows: dict[tuple[Any, ...], Flow] = {}
        self._configuration: Configuration | None = None
        self._marks: dict[str, Any] = {}
        self._counts: dict[tuple[str, str], SchemaCounts] = {}
        self._object_counts = ObjectCounts(journal)
        feed.follow(self._observe, frozenset(self._types))

    def flow_of(self, request: Attributes) -> Flow:
        user, verb = request.user, request.verb
        if request.is_resource:
            key: tuple[Any, ...] = (
                user.name,
                user.groups,
                verb,
                request.group,
                request.resource,
                request.subresource,
                request.namespace,
            )
        else:
            key = (user.name, user.groups, verb, request.path)
        flow = self._flows.get(key)
        return flow if flow is not None else self._classify(key, request)

    def stored_objects(self, group: str, resource: str) -> int:
        return self._object_counts.count(group, resource)

    def counts(self) -> Iterator[SchemaCounts]:
        return iter(self._counts.values())

    def _observe(self, _: Sequence[Event]) -> None:
        self._configuration = None
        self._flows.clear()

    def _classify(self, key: tuple[Any, ...], request: Attributes) -> Flow:
        if self._configuration is None:
            self._configuration = self._read_configuration()
        schema = self._configuration.classify(request)
        if request.subresource in LONG_RUNNING or request.verb == "proxy":
            flow = _UNCLASSIFIED
        else:
            flow = self._flow(schema, request)
        if len(request.path) <= _LONGEST_PATH:
            if len(self._flows) >= _MAX_FLOWS:
                self._flows.clear()
            self._flows[key] = flow
        return flow

    def _flow(self, schema: SchemaSettings, request: Attributes) -> Flow:
        level = self.levels[schema.level]
        settings = level.settings
        hashed = flow_hash(schema.name, schema.distinguisher(request))
        hand = deal_hand(hashed, settings.queues, settings.hand_size)
        counts = self._counts.setdefault(
            (schema.name, level.settings.name), SchemaCounts(schema.name, settings.name)
        )
        return Flow(level, counts, hand, self._marks[schema.name], limited=not settings.exempt)

    def _read_configuration(self) -> Configuration:
        configuration = read_configuration(self._names, self._registry, self._journal, self._total_seats)
        self._configure_levels(configuration)
        self._marks = {
            schema.name: self._mark(schema.uid, configuration.levels[schema.level].uid)
            for schema in configuration.schemas
        }
        self._counts = {
            key: counts
            for key, counts in self._counts.items()
            if key[0] in self._marks and key[1] in configuration.levels
        }
        return configuration

    def _configure_levels(self, configuration: Configuration) -> None:
        """Apply the settings of all levels. A deleted level stays until its last request has ended."""
        for name, level in list(self.levels.items()):
            if name not in configuration.levels and level.unused:
                self.remove_level(name)
        for settings in configuration.levels.values():
            self.set_level(settings)
        self.divide_seats()


def configuration_types(names: Names, journal: Journal) -> tuple[int, int]:
    """The type ids of FlowSchemas and PriorityLevelConfigurations."""
    return journal.type_id(flow_schema_type(names)), journal.type_id(priority_level_type(names))


def read_configuration(names: Names, registry: Registry, journal: Journal, seats: int) -> Configuration:
    """Objects that are not valid are left out: each decides about the requests of all users."""
    schemas = _valid(registry.built_in.storage(flow_schema_type(names)), journal)
    levels = _valid(registry.built_in.storage(priority_level_type(names)), journal)
    return configure(schemas, levels, seats)


def _valid(definition: Definition, journal: Journal) -> list[Object]:
    found: list[Object] = []
    with journal.read() as view:
        rows = view.rows(journal.type_id(definition.type_name), "")
        each_usable(definition.plural, rows, lambda _, __, body: found.append(decode(body)), definition)
    return found


def flow_hash(schema: str, distinguisher: str) -> int:
    digest = sha256(f"{schema}\0{distinguisher}".encode()).digest()
    return int.from_bytes(digest[:8], "little")


def deal_hand(hashed: int, queues: int, hand_size: int) -> tuple[int, ...]:
    """Shuffle sharding: which few of a level's queues a flow may use.

        deal_hand(flow_hash("global-default", "alice"), queues=128, hand_size=6)   -> 6 different queues

    Every flow gets a hand of its own, chosen by a hash. A flow that fills all queues of its hand rarely fills
    all queues of another flow's hand.

    `hand_size` different numbers below `queues`, in the order in which they are dealt.
    """
    dealt: list[int] = []
    ordered: list[int] = []
    for left in range(queues, queues - hand_size, -1):
        hashed, card = divmod(hashed, left)
        for other in ordered:  # ascending: count only the cards that are left
            if other > card:
                break
            card += 1
        dealt.append(card)
        insort(ordered, card)
    return tuple(dealt)


_SECONDS: Final = 1.0
_MAX_RESOURCES: Final = 1024  # clients choose the names, so the cache is cleared when it is full


class ObjectCounts:
    """The number of stored objects of a resource, for estimates of work: at most a second old."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._counts: dict[tuple[str, str], tuple[float, int]] = {}

    def count(self, group: str, resource: str) -> int:
        """The number of objects; 0 for a resource that is not stored."""
        now = time.monotonic()
        known = self._counts.get((group, resource))
        if known is not None and now < known[0]:
            return known[1]
        if len(self._counts) >= _MAX_RESOURCES:
            self._counts.clear()
        number = self._read(f"{resource}.{group}" if group else resource)
        self._counts[group, resource] = (now + _SECONDS, number)
        return number

    def _read(self, type_name: str) -> int:
        type_id = self._journal.type_id(type_name)
        if not type_id:
            return 0
        with self._journal.read() as view:
            return view.count(type_id)


MAX_SEATS: Final = 10
OBJECTS_PER_SEAT: Final = 100
BYTES_PER_SEAT: Final = 256 * 1024


def list_seats(stored: int, limit: int, *, any_version: bool, selective: bool) -> int:
    """How many seats a list takes, by the number of stored objects of the resource, as in v1.25.

    `limit` is 0 if there is none; `any_version` if the client accepts any (resourceVersion=0). Kubernetes also keeps
    seats for some time after a write with many watchers; here the sweeps of watch groups limit themselves. `body_seats`
    is our own: decoding and validating a body takes time in proportion to its size, so fewer requests of a flow with
    large bodies run at once.
    """
    wanted = min(limit, stored) if limit > 0 else stored
    if any_version:
        objects = stored
    elif selective:
        objects = stored + wanted
    else:
        objects = 2 * wanted
    return max(1, min(-(-objects // OBJECTS_PER_SEAT), MAX_SEATS))


def body_seats(length: int) -> int:
    return max(1, min(-(-length // BYTES_PER_SEAT), MAX_SEATS))
