"""API priority and fairness: finds the flow of a request by the stored FlowSchemas and PriorityLevelConfigurations.

The flow of a request depends on its user, verb, resource and namespace (or path) alone, so it is cached by them. A
change of the configuration clears the cache; the next request reads the configuration again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from actors.access.authorize import Attributes
from actors.flowcontrol.configuration import Configuration, LevelSettings, SchemaSettings, configure
from actors.flowcontrol.initial_objects import flow_schema_type, priority_level_type
from actors.flowcontrol.level import Level
from actors.flowcontrol.object_counts import ObjectCounts
from actors.flowcontrol.seats import Flow, SchemaCounts, Seats
from actors.flowcontrol.shuffle_sharding import deal_hand, flow_hash
from actors.messages import Object
from actors.names import Names
from actors.store.document import decode
from actors.store.feed import Feed
from journal.log import Journal
from journal.records import Event

# The cache is cleared when it is full; long paths are not cached.
_MAX_FLOWS: Final = 4096
_LONGEST_PATH: Final = 256
LONG_RUNNING: Final = frozenset({"attach", "exec", "log", "portforward", "proxy"})  # subresources
_UNCLASSIFIED: Final = Flow(
    Level(LevelSettings("", "", exempt=True)), SchemaCounts("", ""), (), None, limited=False
)

Mark = Callable[[str, str], Any]  # of the uids of a FlowSchema and of its level


class PriorityAndFairness(Seats):
    def __init__(self, names: Names, journal: Journal, feed: Feed, seats: int, mark: Mark) -> None:
        super().__init__()
        self._journal = journal
        self._total_seats = seats
        self._mark = mark
        self._types = [journal.type_id(one(names)) for one in (flow_schema_type, priority_level_type)]
        self._flows: dict[tuple[Any, ...], Flow] = {}
        self._configuration: Configuration | None = None
        self._marks: dict[str, Any] = {}
        self._counts: dict[tuple[str, str], SchemaCounts] = {}
        self._object_counts = ObjectCounts(journal)
        feed.follow(self._observe, frozenset(self._types))

    def flow_of(self, request: Attributes) -> Flow:
        user = request[0]
        if request[9]:  # a resource; by index, which takes less time than by name
            key: tuple[Any, ...] = (user.name, user.groups, request[1:7])
        else:
            key = (user.name, user.groups, request[1], request[8])
        flow = self._flows.get(key)
        return flow if flow is not None else self._classify(key, request)

    def stored_objects(self, group: str, resource: str) -> int:
        return self._object_counts.count(group, resource)

    def counts(self) -> Iterator[SchemaCounts]:
        return iter(self._counts.values())

    def _observe(self, _: Sequence[Event]) -> None:
        self._configuration = None
        self._flows.clear()
        self.version += 1

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
        schemas, levels = (list(self._stored(type_id)) for type_id in self._types)
        configuration = configure(schemas, levels, self._total_seats)
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

    def _stored(self, type_id: int) -> Iterator[Object]:
        with self._journal.read() as view:
            for _, _, row in view.rows(type_id, ""):
                yield decode(row.body)

    def _configure_levels(self, configuration: Configuration) -> None:
        """A level that no longer exists stays until its last request has ended."""
        for name, level in list(self.levels.items()):
            if name not in configuration.levels and level.unused:
                del self.levels[name]
        for name, settings in configuration.levels.items():
            if name in self.levels:
                self.levels[name].configure(settings)
            else:
                self.levels[name] = Level(settings)
