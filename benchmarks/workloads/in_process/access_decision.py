"""What authenticating and authorizing a known user costs, in this process: a static token, 500 roles and bindings."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import orjson

from benchmarks.options import Sizes
from benchmarks.reports.measurement import Measurement
from benchmarks.workloads.in_process.ownership import measured
from benchmarks.workloads.workload import Workload
from rewound.actors.access.authentication.authenticate import Authenticated
from rewound.actors.access.authorize import Attributes, Decision
from rewound.actors.kinds.built_in import built_in
from rewound.actors.names import CLUSTER
from rewound.actors.runtime.clock import WallClock
from rewound.actors.selectors.facts import pack_facts
from rewound.actors.store.feed import Feed
from rewound.gateway.settings.settings import Settings
from rewound.journal.log import Journal
from rewound.journal.records import Event
from rewound.server.access import Access, build_access
from rewound.server.extensions import NO_EXTENSIONS

GROUP = CLUSTER.group("rbac.authorization")
HEADER = b"Bearer benchmark-user"


def decision(sizes: Sizes) -> Measurement:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        with closing(Journal.open(folder / "journal")) as journal:
            journal.register_types(built_in(CLUSTER).stored_types())
            journal.append(list(_roles(journal, sizes.roles)))
            tokens = folder / "tokens.csv"
            tokens.write_text("benchmark-user,user-7,7\n")
            settings = Settings(data_dir=folder, token_auth_file=tokens)
            feed = Feed(journal.head, journal)
            access = build_access(settings, CLUSTER, journal, feed, WallClock(), NO_EXTENSIONS)
            return measured("access-decision", sizes, lambda: _decide(access))


def _decide(access: Access) -> None:
    who = access.authenticator.authenticate(HEADER, None)
    assert isinstance(who, Authenticated)
    wanted = Attributes(who.user, "get", "", "v1", "configmaps", "", "default", "one", "/api/v1/...")
    found = access.authorizer.authorize(wanted)
    assert isinstance(found, Decision) and found.allowed


def _roles(journal: Journal, count: int) -> Iterator[Event]:
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
    for number in range(count):
        name = f"user-{number}"
        role = {"apiGroup": GROUP, "kind": "ClusterRole", "name": name}
        subject = {"apiGroup": GROUP, "kind": "User", "name": name}
        yield _event(journal, "clusterroles", 2 * number + 1, {"metadata": {"name": name}, "rules": [rule]})
        binding = {"metadata": {"name": name}, "subjects": [subject], "roleRef": role}
        yield _event(journal, "clusterrolebindings", 2 * number + 2, binding)


def _event(journal: Journal, plural: str, offset: int, document: dict[str, object]) -> Event:
    name = document["metadata"]["name"]  # type: ignore[index]
    return Event(
        offset=offset,
        type_id=journal.type_id(f"{plural}.{GROUP}"),
        verb="create",
        namespace="",
        name=name,
        previous=0,
        removed=False,
        time=1_600_000_000_000_000 + offset,
        user="bench",
        manager="bench",
        facts=pack_facts({}, {}, f"00000000-0000-4000-8000-{offset:012}", ()),
        body=orjson.dumps(document),
    )


ACCESS_DECISION: tuple[Workload[Sizes], ...] = (
    Workload("access-decision", "authenticate and authorize a known user, 500 roles and bindings", decision),
)
