"""A commit reaches exactly the groups whose selectors give an event: the index is compared with trying all groups."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from rewound.actors.runtime.turns import Turn
from rewound.actors.selectors import FieldSelector, LabelSelector, criteria, matcher
from rewound.actors.selectors.facts import pack_facts
from rewound.gateway.watch.changes import Changes
from rewound.gateway.watch.selection import Selection
from rewound.gateway.watch.watched_type import WatchCounters, WatchedType
from rewound.journal.log import Journal
from rewound.journal.records import Event
from tests.actors.object_store import memory_folder

KEYS, VALUES = ("app", "env", "tier"), ("", "a", "b", "c", "3", "7")
FIELDS = ("metadata.name", "metadata.namespace", "spec.nodeName", "status.phase")
NAMES, NAMESPACES = ("n1", "n2", "n3"), ("x", "y")


def label_terms(choose: random.Random) -> Iterator[str]:
    for _ in range(choose.choice((0, 1, 1, 2, 3))):
        key, values = choose.choice(KEYS), choose.sample(VALUES, choose.randint(1, 4))
        yield choose.choice(
            (
                f"{key}={values[0]}",
                f"{key}!={values[0]}",
                f"{key} in ({','.join(values)})",
                f"{key} notin ({','.join(values)})",
                key,
                f"!{key}",
                f"{key}>{choose.randint(1, 8)}",
            )
        )


def field_terms(choose: random.Random) -> Iterator[str]:
    for _ in range(choose.choice((0, 0, 1, 2))):
        field = choose.choice(FIELDS)
        value = choose.choice((*NAMES, *NAMESPACES, ""))
        yield f"{field}{choose.choice(('=', '=', '!='))}{value}"


def random_selection(choose: random.Random) -> Selection:
    labels = LabelSelector.parse(",".join(label_terms(choose)))
    fields = FieldSelector.parse(",".join(field_terms(choose)))
    name = fields.exact("metadata.name")
    namespace = choose.choice((None, *NAMESPACES))
    return Selection(namespace, name, matcher(labels, fields), criteria(labels, fields))


class Objects:
    """Random changes of a few objects, in a journal."""

    def __init__(self, journal: Journal, choose: random.Random) -> None:
        self._journal = journal
        self._choose = choose
        self._latest: dict[tuple[str, str], Event] = {}
        self.type_id = journal.register_type("things")

    def change(self) -> Event:
        key = self._choose.choice(NAMESPACES), self._choose.choice(NAMES)
        before = self._latest.get(key)
        removed = before is not None and self._choose.random() < 0.2
        event = Event(
            offset=self._journal.head + 1,
            type_id=self.type_id,
            verb="delete" if removed else "update",
            namespace=key[0],
            name=key[1],
            previous=before.offset if before else 0,
            removed=removed,
            time=self._journal.head + 1,
            user="u",
            manager="m",
            facts=before.facts if removed and before else self._facts(*key),
            body=b'{"metadata":{}}',
        )
        self._journal.append([event])
        if removed:
            del self._latest[key]
        else:
            self._latest[key] = event
        return event

    def _facts(self, namespace: str, name: str) -> bytes:
        labels = {key: self._choose.choice(VALUES) for key in KEYS if self._choose.random() < 0.6}
        fields = {"metadata.name": name, "metadata.namespace": namespace}
        for field in FIELDS[2:]:
            fields[field] = self._choose.choice((*NAMES, ""))
        return pack_facts(labels, fields, "uid", ())


@pytest.mark.parametrize("seed", range(4))
def test_index_finds_what_trying_all_selections_finds(seed: int) -> None:
    choose = random.Random(seed)
    with memory_folder() as folder:
        journal = Journal.open(folder / "journal")
        objects = Objects(journal, choose)
        watched = WatchedType[int](Changes(journal, objects.type_id, 0), WatchCounters())
        selections: dict[int, Selection] = {}
        for number in range(400):
            if number % 2:
                selections[number] = random_selection(choose)
                watched.follow(selections[number], number)
            if number % 7 == 0 and selections:
                gone = choose.choice(list(selections))
                watched.unfollow(selections.pop(gone), gone)
            change = objects.change()
            affected: dict[int, None] = {}
            watched.collect(change, affected, Turn())
            assert set(affected) == {
                one for one, selection in selections.items() if selection.select(change, watched.changes)
            }
        for one, selection in selections.items():
            watched.unfollow(selection, one)
        assert not watched
        journal.close()
