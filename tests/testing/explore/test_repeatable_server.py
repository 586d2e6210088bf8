"""The same seed and the same requests give the same journal, byte for byte."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

import rewound
from rewound.journal.log import Journal
from rewound.testing.explore.explore import Explorer
from tests.testing.explore.controllers import create_set, waits_for_its_pods

FAULTS = "3:crash:1 2:lag:1 1:lost:0 2:time:3 1:turn:0"


def busy_scenario(api: rewound.Api) -> None:
    """Wakes several controllers of the server at once: for accounts, root certificates, tokens, garbage, namespaces."""
    for name in ("shop", "bank"):
        api.post("/api/v1/namespaces", json={"metadata": {"name": name}}).raise_for_status()
        path = f"/api/v1/namespaces/{name}"
        api.post(f"{path}/services", json={"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})
        owner = api.post(f"{path}/configmaps", json={"metadata": {"generateName": "owner-"}}).json()[
            "metadata"
        ]
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["name"], "uid": owner["uid"]}
        for _ in range(3):
            api.post(
                f"{path}/secrets", json={"metadata": {"generateName": "x-", "ownerReferences": [reference]}}
            )
        api.delete(f"{path}/configmaps/{owner['name']}")
    create_set(api)
    api.delete("/api/v1/namespaces/shop").raise_for_status()
    api.settle()


class Digests(Explorer):
    """Remembers the bytes of every event of every run."""

    found: list[str]

    def run(self, folder: Path, faults: Any) -> Any:
        outcome = super().run(folder, faults)
        journal = Journal.open(folder / "journal", readonly=True)
        digest = hashlib.sha256()
        with journal.read() as view:
            for key, value in view.txn.cursor(view.databases.events):
                digest.update(bytes(key) + bytes(value))
            self.found.append(f"{view.head} {digest.hexdigest()}")
        journal.close()
        return outcome


def digests(monkeypatch: pytest.MonkeyPatch, seed: int, runs: int) -> list[str]:
    """The journals of all runs with the same faults."""
    monkeypatch.setattr("rewound.testing.explore.explore.Explorer", Digests)
    monkeypatch.setattr(Digests, "found", [], raising=False)
    for _ in range(runs):
        rewound.explore(waits_for_its_pods, busy_scenario, seed=seed, repeat=FAULTS, same_end=False)
    return Digests.found


def test_same_seed_gives_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    found = digests(monkeypatch, 7, 3)
    assert len(found) == 3 and len(set(found)) == 1
    assert digests(monkeypatch, 8, 1) != found[:1]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_same_seed_gives_the_same_bytes_a_hundred_times(monkeypatch: pytest.MonkeyPatch) -> None:
    found = digests(monkeypatch, 7, 100)
    assert len(found) == 100 and len(set(found)) == 1
