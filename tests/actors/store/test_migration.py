"""The storage migration of a folder: from each version of Kubernetes to the next, over several, killed, refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import orjson
import pytest

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.messages import Object
from rewound.actors.names import KUBERNETES
from rewound.actors.store.document import decode, encode, facts_of
from rewound.actors.store.migration import migrate, needs_migration
from rewound.actors.versions.features import choose_release
from rewound.actors.versions.version import VERSIONS
from rewound.journal.errors import NewerKubernetes
from rewound.journal.log import Journal
from rewound.journal.records import Event

NOW = 1_700_000_000_000_000
TEMPLATE = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
SELECTOR = {"matchLabels": {"app": "a"}}
OBJECTS: list[tuple[str, Object]] = [
    ("configmaps", {"data": {"a": "b"}}),
    ("secrets", {"data": {"a": "Yg=="}}),
    ("services", {"spec": {"ports": [{"port": 80}], "selector": {"app": "a"}}}),
    ("pods", {**TEMPLATE, "status": {}}),
    ("deployments.apps", {"spec": {"selector": SELECTOR, "template": TEMPLATE}}),
    ("statefulsets.apps", {"spec": {"selector": SELECTOR, "template": TEMPLATE, "serviceName": "s"}}),
    ("jobs.batch", {"spec": {"template": TEMPLATE}}),
    ("cronjobs.batch", {"spec": {"schedule": "@daily", "jobTemplate": {"spec": {"template": TEMPLATE}}}}),
    ("poddisruptionbudgets.policy", {"spec": {"selector": SELECTOR, "minAvailable": 1}}),
    ("persistentvolumeclaims", {"spec": {"accessModes": ["ReadWriteOnce"]}}),
    ("leases.coordination.k8s.io", {"spec": {"holderIdentity": "a"}}),
]


def catalog_of(version: str) -> Catalog:
    return built_in(KUBERNETES, choose_release(version))


def fill(journal: Journal, version: str, count: int = 1) -> None:
    """Store objects as a server of the version does."""
    catalog = catalog_of(version)
    journal.register_types(catalog.stored_types())
    for index in range(count):
        for type_name, sent in OBJECTS:
            storage = catalog.storage(type_name)
            name, offset = f"a{index}", journal.head + 1
            metadata = {
                "name": name,
                "namespace": "n",
                "uid": f"u{offset}",
                "creationTimestamp": "2026-01-01T00:00:00Z",
            }
            sent = {**sent, "metadata": {**sent.get("metadata", {}), **metadata}}
            one = storage.schema.decode_json(orjson.dumps(sent)).object
            storage.schema.null_empty_lists(one)
            type_id, facts = journal.type_id(type_name), facts_of(storage, one)
            body = encode(one, offset)
            journal.append(
                [Event(offset, type_id, "create", "n", name, 0, False, NOW, "u", "m", facts, body)]
            )


def add_object_with_vanished_field(journal: Journal, type_name: str) -> None:
    storage, offset = catalog_of("1.25").storage(type_name), journal.head + 1
    metadata = {"name": "odd", "namespace": "n", "uid": f"u{offset}", "creationTimestamp": None}
    one: Object = {"metadata": metadata, "vanished": True}
    type_id, facts, body = journal.type_id(type_name), facts_of(storage, one), encode(one, offset)
    journal.append([Event(offset, type_id, "create", "n", "odd", 0, False, NOW, "u", "m", facts, body)])


def stored(journal: Journal) -> Iterator[tuple[str, Object]]:
    with journal.read() as view:
        for type_name, type_id in journal.types().items():
            for _, name, row in view.rows(type_id):
                yield f"{type_name}/{name}", {**decode(row.body), "facts": row.facts}


def fresh(tmp_path: Path, version: str, count: int = 1) -> Journal:
    journal = Journal.open(tmp_path, dialect="kubernetes", kubernetes=choose_release(version).record)
    fill(journal, version, count)
    return journal


def without_versions(objects: Iterator[tuple[str, Object]]) -> dict[str, Object]:
    found = dict(objects)
    for one in found.values():
        del one["metadata"]["resourceVersion"]
    return found


async def migrated(journal: Journal, version: str) -> int:
    release = choose_release(version)
    assert needs_migration(journal, release)
    changed = await migrate(journal, release, catalog_of(version), NOW + 1)
    assert not needs_migration(journal, release)
    assert journal.kubernetes == version
    return changed


@pytest.mark.parametrize(("before", "after"), [*pairwise(VERSIONS), (VERSIONS[0], VERSIONS[-1])])
async def test_objects_get_the_form_of_the_new_version(tmp_path: Path, before: str, after: str) -> None:
    """They become what a server of the new version would have stored, and only those that differ get an event."""
    journal, expected = fresh(tmp_path / "a", before), fresh(tmp_path / "b", after)
    old = without_versions(stored(journal))
    head = journal.head
    changed = await migrated(journal, after)
    new = without_versions(stored(journal))
    assert new == without_versions(stored(expected))
    assert changed == journal.head - head == sum(old[name] != new[name] for name in old)
    journal.close()
    expected.close()


async def test_stepwise_migration_equals_one_step(tmp_path: Path) -> None:
    stepwise, at_once = fresh(tmp_path / "a", VERSIONS[0]), fresh(tmp_path / "b", VERSIONS[0])
    for version in VERSIONS[1:]:
        await migrated(stepwise, version)
    assert await migrated(at_once, VERSIONS[-1]) > 0
    assert without_versions(stored(stepwise)) == without_versions(stored(at_once))
    stepwise.close()
    at_once.close()


PROGRAM = """
import sys, trio
from pathlib import Path
from rewound.actors.kinds.built_in import built_in
from rewound.actors.names import KUBERNETES
from rewound.actors.store.migration import migrate
from rewound.actors.versions.features import choose_release
from rewound.journal.log import Journal

journal, release = Journal.open(Path(sys.argv[1]), dialect="kubernetes"), choose_release(sys.argv[2])
trio.run(migrate, journal, release, built_in(KUBERNETES, release), 0)
"""


async def test_a_migration_goes_on_after_a_kill(tmp_path: Path) -> None:
    """The folder has the new version from the start, and each object changes once."""
    journal = fresh(tmp_path, VERSIONS[0], count=2)
    add_object_with_vanished_field(journal, "configmaps")
    add_object_with_vanished_field(journal, "secrets")
    head = journal.head
    journal.close()
    killed = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), VERSIONS[-1]],
        env={**os.environ, "REWOUND_FAILPOINT": "migration:batch:1"},
        timeout=120,
    )
    assert killed.returncode == -signal.SIGKILL

    journal = Journal.open(tmp_path, dialect="kubernetes")
    assert journal.kubernetes == VERSIONS[-1]
    before = journal.head - head
    after = await migrated(journal, VERSIONS[-1])
    with journal.read() as view:
        touched = [(one.type_id, one.name) for one in view.all_events(head)]
    assert before > 0
    assert after > 0
    assert len(touched) == before + after == len(set(touched))
    journal.close()


async def test_an_older_version_is_refused(tmp_path: Path) -> None:
    journal = fresh(tmp_path, "1.33")
    with pytest.raises(NewerKubernetes) as refused:
        needs_migration(journal, choose_release("1.32"))
    assert "has objects of Kubernetes 1.33, which 1.32 cannot read" in str(refused.value)
    assert "--kubernetes-version 1.33" in str(refused.value)
    journal.close()


async def test_fields_that_the_version_does_not_have_are_dropped(tmp_path: Path) -> None:
    """As Kubernetes drops them when it decodes; the history still has them."""
    journal = fresh(tmp_path, "1.25")
    add_object_with_vanished_field(journal, "configmaps")
    await migrated(journal, "1.26")
    assert "vanished" not in dict(stored(journal))["configmaps/odd"]
    with journal.read() as view:
        assert b"vanished" in next(view.history(journal.type_id("configmaps"), "n", "odd")).body
    journal.close()
