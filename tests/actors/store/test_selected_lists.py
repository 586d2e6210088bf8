"""A list with selectors has exactly the objects that match at its version, whatever finds them, in turns and pages.

The server searches a column of facts (`journal/columns.py`) or compares all rows; both equal a model here, while other
clients write, labels and nodes change, definitions make fields selectable, and retention passes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from rewound.actors.errors import Expired
from rewound.actors.runtime import turns
from rewound.actors.selectors import FieldSelector, LabelSelector, search
from rewound.actors.selectors.facts import pack_facts
from rewound.actors.store.reads import ListReader, Start, parse_token
from rewound.actors.store.stored_json import StoredJson
from rewound.journal import Event, Journal, columns, replay, retention
from rewound.journal.columns import Columns
from rewound.journal.records import Row
from rewound.journal.search import Search
from tests.actors.object_store import ManualClock
from tests.examples import examples
from tests.journal.model import ram

NAMES = [f"p{number}" for number in range(9)]
NAMESPACES = ["a", "a-b", "b"]
NODES = ["", "n1", "n2", "n" * 40, "n" * 300]
TEAMS = [None, "red", "blue"]
COLORS = ["", "red", "green"]
LABELS = ["", "team", "!team", "team=red", "team!=red", "team in (red,blue)", "team=nobody"]
FIELDS = ["", "spec.nodeName=n1", f"spec.nodeName={'n' * 300}", "spec.nodeName!=n1", "spec.nodeName="]
FIELDS += ["spec.nodeName=n2,spec.color=red", "spec.color=red", "spec.color!=green", "metadata.name=p1"]


def color(stored: Any) -> str:
    return str(stored["spec"].get("color", ""))


def color_or_red(stored: Any) -> str:
    return str(stored["spec"].get("color", "red"))


@dataclass(frozen=True)
class Defined:
    """What a definition makes selectable: the key that JSON with the field contains, and what reads it."""

    key: bytes
    read: Callable[[Any], str]


DEFINITIONS = [None, Defined(b'"color"', color), Defined(b"", color_or_red)]


@dataclass
class List:
    """A list that is being read: the pages so far, and the reader of the next one."""

    namespace: str | None
    labels: LabelSelector
    fields: FieldSelector
    read: Callable[[Any], str]
    limit: int
    wanted: Search | None
    reader: ListReader
    page: list[bytes] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)


class Cluster:
    """A journal of one type, and what it must return: all events."""

    def __init__(self, folder: Path) -> None:
        self.journal, self.clock = Journal.open(folder), ManualClock()
        self.type_id = self.journal.register_type("pods")
        self.events: list[Event] = []
        self.rows: dict[tuple[str, str], Row] = {}  # the newest state
        self.floor = 0
        self.lists: list[List] = []
        self.compared = 0

    def state(self, version: int) -> dict[tuple[str, str], Row]:
        rows: dict[tuple[str, str], Row] = {}
        for event in self.events:
            if event.offset <= version:
                if event.removed:
                    rows.pop((event.namespace, event.name))
                else:
                    rows[event.namespace, event.name] = Row(event.offset, event.facts, event.body)
        return dict(sorted(rows.items()))

    def play(self, random: Random) -> None:
        """One random thing that happens."""
        match random.choice(
            ["write"] * 6 + ["remove"] * 2 + ["list"] * 3 + ["steps"] * 8 + ["retain", "forget"]
        ):
            case "write":
                namespace, name, node = map(random.choice, (NAMESPACES, NAMES, NODES))
                self.write(
                    namespace, name, node, random.choice(TEAMS), random.choice(COLORS), random.random() < 0.5
                )
            case "remove":
                if self.rows:
                    self.append(*random.choice(sorted(self.rows)), b"", b"{}", removed=True)
            case "list":
                labels, fields = random.choice(LABELS), random.choice(FIELDS)
                back = random.choice([0, 0, 0, random.randrange(12)])
                namespace, limit = random.choice([None, None, *NAMESPACES]), random.choice([0, 0, 1, 2, 4])
                self.begin(namespace, labels, fields, random.choice(DEFINITIONS), limit, back)
            case "steps":
                for _ in range(random.choice([1, 3, 20])):
                    if self.lists:
                        self.step(random.choice(self.lists))
            case "retain":
                floor = self.journal.head - random.randrange(20)
                while not (progress := retention.advance(self.journal, floor, 3)).done:
                    pass
                self.floor = progress.floor
            case "forget":
                if random.random() < 0.2:
                    self.journal.columns = Columns(random.choice([0, 6000, columns.COLUMN_BYTES]))

    def write(
        self, namespace: str, name: str, node: str, team: str | None, color: str, is_selectable: bool
    ) -> None:
        spec = {"nodeName": node} | ({"color": color} if color else {})
        labels = {"app": "x"} | ({"team": team} if team else {})
        stored = {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": spec}
        fields = {"spec.color": color} if is_selectable else {}
        fields |= {"spec.nodeName": node, "metadata.name": name, "metadata.namespace": namespace}
        facts = pack_facts(labels, fields, f"uid-{len(self.events)}", [])
        self.append(namespace, name, facts, orjson.dumps(stored))

    def append(self, namespace: str, name: str, facts: bytes, body: bytes, *, removed: bool = False) -> None:
        before = self.rows.get((namespace, name))
        offset, previous = len(self.events) + 1, 0 if before is None else before.offset
        if removed and before is not None:
            facts, body = before.facts, before.body
        event = Event(
            offset, self.type_id, "put", namespace, name, previous, removed, offset, "u", "m", facts, body
        )
        self.journal.append([event])
        self.events.append(event)
        self.rows[namespace, name] = Row(offset, facts, body)
        if removed:
            del self.rows[namespace, name]

    def begin(
        self,
        namespace: str | None,
        labels: str,
        fields: str,
        defined: Defined | None,
        limit: int,
        back: int,
    ) -> None:
        of_labels, of_fields = LabelSelector.parse(labels), FieldSelector.parse(fields)
        if defined is None and "color" in fields:
            return  # refused: it is not selectable
        if defined is not None:
            of_fields = of_fields.reading({"spec.color": defined.key}, {"spec.color": defined.read})
        wanted = search(of_labels, of_fields)
        version = None if not back else max(self.floor, self.journal.head - back)
        reader = self.reader(namespace, limit, wanted, Start(version, None, -1))
        read = color if defined is None else defined.read
        self.lists.append(List(namespace, of_labels, of_fields, read, limit, wanted, reader))

    def reader(self, namespace: str | None, limit: int, wanted: Search | None, start: Start) -> ListReader:
        return ListReader(
            *(self.journal, self.clock, self.type_id, namespace, limit, wanted, start),
            stored=StoredJson(),
            plural="configmaps",
        )

    def step(self, one: List) -> None:
        """One turn of a list; at the end of a page, its token begins the next one."""
        try:
            one.page += one.reader.step()
        except Expired:
            assert one.reader.version < self.floor
            self.lists.remove(one)
            return
        if not one.reader.complete:
            return
        listing = one.reader.listing(one.page)
        assert not one.limit or len(listing.bodies) <= one.limit
        one.bodies += listing.bodies
        if listing.token:
            assert len(listing.bodies) == one.limit
            token = parse_token(listing.token)
            one.page = []
            one.reader = self.reader(one.namespace, one.limit, one.wanted, Start(token.version, token, -1))
            return
        assert one.bodies == self.expected(one, listing.version)
        self.lists.remove(one)
        self.compared += 1

    def expected(self, one: List, version: int) -> list[bytes]:
        return [
            row.body
            for (namespace, _), row in self.state(version).items()
            if one.namespace in (None, namespace) and matches(one, orjson.loads(row.body))
        ]


def matches(one: List, stored: Any) -> bool:
    metadata = stored["metadata"]
    fields = {"metadata.name": metadata["name"], "spec.nodeName": stored["spec"]["nodeName"]}
    fields["spec.color"] = one.read(stored)
    return one.labels.matches(metadata["labels"]) and one.fields.matches(fields)


@pytest.fixture(params=["a column from the first object on", "many keys", "old versions replayed"])
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every turn ends at its second check of the clock, and everything that has a bound reaches it."""
    monkeypatch.setattr(columns, "LEAST", 1)
    monkeypatch.setattr(columns, "STEP_ROWS", 2)
    monkeypatch.setattr(columns, "STEP_KEYS", 2)
    monkeypatch.setattr(columns, "FIRST_SLICE", 1)
    monkeypatch.setattr(columns, "LAST_SLICE", 3)
    monkeypatch.setattr(columns, "FEW", 1)
    if request.param == "many keys":
        monkeypatch.setattr(columns, "MOST_KEYS", 3)
    if request.param == "old versions replayed":
        monkeypatch.setattr(replay, "UNDO_EVENTS", 0)
    times: Iterator[int] = count()
    for clock in ("now", "processor_now"):
        monkeypatch.setattr(turns, clock, lambda: next(times) * turns.TURN / 3)


@pytest.mark.usefixtures("small")
@examples(10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32))
def test_lists_equal_the_model(seed: int) -> None:
    random = Random(seed)
    with tempfile.TemporaryDirectory(dir=ram()) as folder:
        cluster = Cluster(Path(folder))
        try:
            for _ in range(250):
                cluster.play(random)
            while cluster.lists:
                cluster.step(cluster.lists[-1])
            assert cluster.compared > 10
        finally:
            cluster.journal.close()
