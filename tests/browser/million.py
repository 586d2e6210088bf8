"""A journal with a million events of one day: many kinds, namespaces and users, in bursts."""

from __future__ import annotations

import random
from pathlib import Path
from zlib import crc32

from rewound.actors.selectors.facts import pack_facts
from rewound.journal import Journal
from rewound.journal.records import Event

DAY = 86_400 * 1_000_000
BATCH = 20_000
# Without controllers that would act on them.
KINDS = (
    "configmaps",
    "limitranges",
    "podtemplates",
    "controllerrevisions.apps",
    "ingresses.networking.cluster.io",
    "networkpolicies.networking.cluster.io",
    "leases.coordination.cluster.io",
)
NAMESPACES = 40
BODY = (
    b'{"metadata":{"name":"%b","namespace":"%b","resourceVersion":"%d","uid":"%b",'
    b'"creationTimestamp":"2023-11-14T22:13:20Z","labels":{"app":"%b"}},'
    b'"data":{"color":"%b","build":"%b","text":"%b"},"revision":1,"spec":{"podSelector":{},"rules":[],"limits":[]},'
    b'"template":{"metadata":{},"spec":{"containers":[]}},"status":{"seen":%d}}'
)  # with what the columns of these kinds read
COLORS = (
    b"amber",
    b"blue",
    b"coral",
    b"green",
    b"indigo",
    b"lime",
    b"olive",
    b"pink",
    b"red",
    b"teal",
    b"violet",
)
NEEDLE = b"heliotrope"  # the color of one event in a hundred thousand
STATUS_ONLY = 0.3  # of updates
OBJECTS = 50  # of each kind in each namespace


def add_events(folder: Path, many: int) -> None:
    """Append events of the day after the newest one to the journal of a stopped server."""
    journal = Journal.open(folder)
    try:
        chance = random.Random(7)
        types = [type_id for name in KINDS if (type_id := journal.type_id(name))]
        assert len(types) >= 4, "the journal must have the types of a server"
        live: dict[tuple[int, str, str], tuple[int, bytes, bytes]] = {}
        first = journal.head + 1
        with journal.read() as view:
            newest = view.event(view.head)
        began = newest.time if newest is not None else 0
        for start in range(first, first + many, BATCH):
            batch = []
            for offset in range(start, min(start + BATCH, first + many)):
                time = began + (offset - first) * DAY // many
                batch.append(_event(chance, types, live, offset, time))
            journal.append(batch)
    finally:
        journal.close()


def _event(
    chance: random.Random,
    types: list[int],
    live: dict[tuple[int, str, str], tuple[int, bytes, bytes]],
    offset: int,
    time: int,
) -> Event:
    type_id = types[min(int(chance.expovariate(0.6)), len(types) - 1)]
    namespace = f"team-{int(chance.random() ** 2 * NAMESPACES)}"
    name = f"object-{chance.randrange(OBJECTS)}"
    key = type_id, namespace, name
    previous, color, build = live.get(key, (0, b"", b""))
    removed = previous > 0 and chance.random() < 0.1
    if not removed and not (previous and chance.random() < STATUS_ONLY):
        color, build = chance.choice(COLORS), b"%08x" % crc32(b"%d" % offset)
        if offset % 100_000 == 99_999:
            color = NEEDLE
    live[key] = (0 if removed else offset), color, build
    verb = "delete" if removed else "patch" if previous else "create"
    uid = f"{type_id:08x}-0000-4000-8000-{crc32(f'{namespace}/{name}'.encode()):012x}"
    names = name.encode(), namespace.encode(), offset, uid.encode(), name.encode()
    body = BODY % (*names, color, build, b"x" * 200, offset)
    user = f"system:serviceaccount:team:{offset % 9}"
    facts = pack_facts({}, {}, uid, ())
    return Event(
        offset, type_id, verb, namespace, name, previous, removed, time, user, "controller", facts, body
    )
