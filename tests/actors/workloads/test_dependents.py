"""Which owners a controller reconciles when one of their dependents changes."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rewound.actors.kinds.declaration.meta import LabelMatcher
from rewound.actors.messages import Object
from rewound.actors.runtime import turns
from rewound.actors.workloads import controller
from rewound.actors.workloads.built_in import Workloads
from rewound.actors.workloads.cache import Key
from rewound.actors.workloads.controller import CHANGED, Parts, WorkloadController
from rewound.actors.workloads.pods import Claims
from tests.actors.controllers.control_plane import ControlPlane, open_control_plane, owner_reference
from tests.actors.controllers.signing_requests import controller_context


class Watcher(WorkloadController):
    """Claims for each ReplicaSet the pods whose names start with its name, and records its key."""

    name, account = "watcher", "watcher-controller"
    reconciled: list[str]
    claimed: dict[str, list[str]]

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._sets = self.keyed_by("replicasets.apps")
        self._pods = self.dependents("pods", self._sets)
        self._claims = Claims(self.client, self._sets, self._pods)

    async def reconcile(self, key: Key) -> None:
        if key[1] == CHANGED:
            await self.find_owners_of_changed(key[0])
            return
        self.reconciled.append(key[1])
        found = self._sets.get(*key)
        assert found is not None
        pods = await self._claims.claim(
            found, found["spec"]["selector"], lambda pod: pod["metadata"]["name"].startswith(key[1])
        )
        self.claimed[key[1]] = [pod["metadata"]["name"] for pod in pods]


async def replica_set(cluster: ControlPlane, name: str, app: str) -> Object:
    template = {"metadata": {"labels": {"app": app}}, "spec": POD}
    spec = {"selector": {"matchLabels": {"app": app}}, "template": template}
    return await cluster.create("replicasets.apps", name, content={"spec": spec})


async def pod(cluster: ControlPlane, name: str, app: str, owners: list[Object] | None = None) -> None:
    await cluster.create("pods", name, owners=owners, content={"spec": POD}, labels={"app": app})


POD = {"containers": [{"name": "c", "image": "i"}]}


async def test_change_of_a_dependent_adds_its_owner_or_who_may_adopt_it(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    Watcher.reconciled, Watcher.claimed = [], {}
    async with open_control_plane(tmp_path, controllers=False) as cluster, trio.open_nursery() as nursery:
        workloads = Workloads(
            controller_context(cluster, enabled=frozenset({"watcher"})), [("watcher", Watcher)]
        )
        for _, run in workloads.tasks:
            nursery.start_soon(run)
        a, b = [await replica_set(cluster, name, name) for name in ("a", "b")]

        async def reconciled() -> set[str]:
            await cluster.wait_until_idle(1)
            found = set(Watcher.reconciled)
            Watcher.reconciled.clear()
            return found

        assert await reconciled() == {"a", "b"}
        reference = {**owner_reference(a, "ReplicaSet", controller=True), "apiVersion": "apps/v1"}
        await pod(cluster, "a-1", "a", [reference])
        assert await reconciled() == {"a"}
        await pod(cluster, "alone", "c")
        await pod(cluster, "c-of-b", "b")
        await pod(cluster, "of-another", "b", [{**reference, "uid": "gone"}])
        assert await reconciled() == {"b"}  # it may adopt the second, but does not accept its name
        assert Watcher.claimed == {"a": ["a-1"], "b": []}
        await pod(cluster, "b-1", "b")
        assert await reconciled() == {"b"} and Watcher.claimed["b"] == ["b-1"]
        changed = cluster.get("pods", "a-1")
        assert changed is not None
        changed["metadata"]["labels"] = {"app": "b"}
        await cluster.replace("pods", changed)  # released by a, and then not adopted by b
        assert await reconciled() == {"a", "b"} and Watcher.claimed == {"a": [], "b": ["b-1"]}
        await cluster.delete("pods", "b-1")
        assert await reconciled() == {"b"}
        await cluster.delete("pods", "alone")
        assert await reconciled() == set()
        assert b["metadata"]["uid"] not in str(cluster.get("pods", "a-1"))
        nursery.cancel_scope.cancel()


async def test_those_that_may_adopt_are_found_in_turns_where_they_are_many(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    Watcher.reconciled, Watcher.claimed = [], {}
    compared, most, wait, make = 0, 0, turns.next_turn, controller.LabelMatcher

    async def next_turn() -> None:
        nonlocal compared
        compared = 0
        await wait()

    def counted(selector: Object) -> LabelMatcher:
        nonlocal compared, most
        compared += 1
        most = max(most, compared)
        return make(selector)

    monkeypatch.setattr(turns, "TURN", 0.0)
    monkeypatch.setattr(turns, "next_turn", next_turn)
    monkeypatch.setattr(controller, "LabelMatcher", counted)
    async with open_control_plane(tmp_path, controllers=False) as cluster, trio.open_nursery() as nursery:
        workloads = Workloads(
            controller_context(cluster, enabled=frozenset({"watcher"})), [("watcher", Watcher)]
        )
        for _, run in workloads.tasks:
            nursery.start_soon(run)
        for number in range(70):
            await replica_set(cluster, f"s{number}", f"s{number}")
        await cluster.wait_until_idle(1)
        Watcher.reconciled.clear()
        await pod(cluster, "s69-1", "s69")
        await cluster.wait_until_idle(1)
        assert 1 <= most <= 2
        assert set(Watcher.reconciled) == {"s69"} and Watcher.claimed["s69"] == ["s69-1"]
        nursery.cancel_scope.cancel()
