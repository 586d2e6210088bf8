"""Old versions of a large journal, and reviews of large roles."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import trio

from benchmarks.attacks.outside import HANGING, OTHER, create
from benchmarks.attacks.target import Attack, Run, Target, attacks, head, many, post, read_response
from benchmarks.scale.filled_journal import updated
from rewound.journal.log import Journal
from rewound.journal.records import Event

EVENTS: Final = 700_000
OBJECTS: Final = 20_000
TEMPLATE: Final = "template"
NAMESPACE: Final = "many"
MAPS: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
_HISTORY: Final = f"/apis/rewound.cluster.io/v1/namespaces/{NAMESPACE}/configmaps"
_RBAC: Final = "rbac.authorization.cluster.io"
_BATCH: Final = 2000


def fill(folder: Path, events: int = EVENTS) -> None:
    """Append events to the journal of a server that has stopped: copies of the template, and updates of them."""
    journal = Journal.open(folder)
    try:
        types = {name.split(".")[0]: number for name, number in journal.types().items()}
        with journal.read() as view:
            row = view.get(types["configmaps"], NAMESPACE, TEMPLATE)
            assert row is not None
            template = view.event(row.offset)
            assert template is not None
        made = _events(template, journal.head, journal.time, events)
        while batch := list(islice(made, _BATCH)):
            journal.append(batch)
    finally:
        journal.close()


def _events(template: Event, head: int, now: int, count: int) -> Iterator[Event]:
    latest: list[Event] = []
    for number in range(min(OBJECTS, count)):
        head, now = head + 1, now + 1
        name = f"o-{number:06}"
        body = template.body.replace(TEMPLATE.encode(), name.encode())
        created = updated(template._replace(name=name, body=body), head, now)
        latest.append(created._replace(verb="create", previous=0))
        yield latest[-1]
    for number in range(count - len(latest)):
        head, now = head + 1, now + 1
        index = number % len(latest)
        latest[index] = updated(latest[index], head, now)
        yield latest[index]


def _each(path: Callable[[random.Random], str], connections: int) -> Run:
    """Requests that all have different paths."""

    async def some(target: Target, chance: random.Random) -> None:
        while True:
            async with await target.connect() as stream:
                await stream.send_all(head("GET", path(chance)))
                await read_response(stream)

    async def attack(target: Target) -> None:
        async with trio.open_nursery() as nursery:
            for number in range(connections):
                nursery.start_soon(some, target, random.Random(number))
            await target.over()
            nursery.cancel_scope.cancel()

    return attack


def _old_list(chance: random.Random) -> str:
    return f"{MAPS}?at={chance.randrange(OBJECTS, EVENTS)}"


def _unknown_uid(chance: random.Random) -> str:
    return f"{_HISTORY}/{uuid.UUID(int=chance.getrandbits(128), version=4)}/history"


def _search(chance: random.Random) -> str:
    """Twenty prefixes that nearly every event has."""
    words = ["c", "co", "con", "conf", "config", "configm", "configma", "configmap", "m", "ma", "man", "many"]
    words += ["k", "ke", "key", "x", "xx", "o", "d"]
    query = "+".join([*words, str(chance.randrange(10))])
    return f"/apis/rewound.cluster.io/v1/timeline/events?q={query}"


async def _large_roles(target: Target) -> None:
    for number in range(30):
        names = [f"name-{number}-{index}" for index in range(20_000)]
        rules = [
            {
                "apiGroups": ["a"],
                "resources": ["b"],
                "verbs": ["get"],
                "resourceNames": names[first : first + 10],
            }
            for first in range(0, len(names), 10)
        ]
        role = {"metadata": {"name": f"large-{number}"}, "rules": rules}
        await create(target, f"/apis/{_RBAC}/v1/clusterroles", role)
        binding = {
            "metadata": {"name": f"large-{number}"},
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": f"large-{number}"},
            "subjects": [{"apiGroup": _RBAC, "kind": "User", "name": HANGING}],
        }
        await create(target, f"/apis/{_RBAC}/v1/clusterrolebindings", binding)


async def _review_rules(target: Target) -> None:
    body = json.dumps({"spec": {"namespace": "default"}}).encode()
    path = "/apis/authorization.cluster.io/v1/selfsubjectrulesreviews"
    await many(target, 8, post(path, body, token=HANGING))


HISTORY: dict[str, Attack] = {
    **attacks(
        "users who may rewind",
        {
            "whole lists at random versions, 700,000 events": _each(_old_list, 8),
            "history of unknown uids, 700,000 events": _each(_unknown_uid, 8),
            "searches for 20 common beginnings, 700,000 events": _each(_search, 8),
        },
        journal=True,
    ),
    "rules reviews with large roles": Attack(_review_rules, "any user", prepare=_large_roles, other=OTHER),
}
