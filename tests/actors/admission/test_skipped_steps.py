"""Writes in namespaces that concern no plugin skip admission, until one does, and are counted."""

from __future__ import annotations

from collections.abc import Callable

from rewound.actors.admission.chain import Admission
from rewound.actors.admission.plugin import AsyncPlugin, Plugin, rule
from rewound.actors.admission.request import CREATE, AdmissionRequest
from rewound.actors.admission.timings import Timings
from rewound.actors.kinds.built_in import built_in
from rewound.actors.names import CLUSTER
from tests.actors.admission.plugins.quota.objects import add_quota, config_map, refusal
from tests.actors.object_store import Refused, Store, open_store

CONFIG_MAPS = built_in(CLUSTER).find("", "v1", "configmaps")


class Idle(Plugin):
    """Has nothing to do in the namespace `idle`."""

    name = "Idle"
    mutates = validates = (rule(CREATE),)

    def admits_all(self, operation: str) -> Callable[[str], bool]:
        return "idle".__eq__

    def mutate(self, request: AdmissionRequest) -> None:
        """Changes nothing."""

    def validate(self, request: AdmissionRequest) -> None:
        """Refuses nothing."""


class Called(AsyncPlugin):
    name = "Called"
    validates = (rule(CREATE),)


async def error_of_create(store: Store, name: str, namespace: str) -> str:
    try:
        await store.create("configmaps", config_map(name), namespace)
    except Refused as refused:
        return refused.reason
    return ""


async def test_quota_counts_from_its_creation_to_its_deletion() -> None:
    async with open_store() as store:
        for name in "ab":
            await store.create("configmaps", config_map(name))
        await add_quota(store, {"count/configmaps": "2"})
        assert "used: count/configmaps=2" in await refusal(store, "configmaps", config_map("c"))
        await store.delete("resourcequotas", "q")
        await store.create("configmaps", config_map("c"))


async def test_namespace_is_refused_from_its_deletion_to_its_next_creation() -> None:
    async with open_store() as store:
        assert await error_of_create(store, "a", "n") == "NotFound"
        for round in "12":
            await store.create("namespaces", {"metadata": {"name": "n"}})
            assert [await error_of_create(store, name + round, "n") for name in "ab"] == ["", ""]
            await store.delete("namespaces", "n")
            assert await error_of_create(store, "c", "n") == "Forbidden"
            terminating = await store.get("namespaces", "n")
            await store.replace("namespaces", {**terminating, "spec": {}}, subresource="finalize")
            assert await error_of_create(store, "c", "n") == "NotFound"


def test_skipped_steps_count_as_passed() -> None:
    async_plugin, timings = Called(), Timings()
    async_plugin.idle = True
    chain = Admission([Idle(), async_plugin], timings=timings).chain(CONFIG_MAPS, CREATE, "")
    assert not chain.admits_all("busy")
    assert chain.admits_all("idle") and chain.admits_all("idle")
    chain.count_validated()
    async_plugin.idle = False
    assert not chain.admits_all("idle")
    counts = {labels: found[1][0] for labels, found in timings.phases().items()}
    assert counts == {("admit", CREATE, "false"): 2, ("validate", CREATE, "false"): 1}
    plugins = {labels: found[1][0] for labels, found in timings.plugins().items()}
    assert plugins == {("Idle", "admit", CREATE, "false"): 2, ("Idle", "validate", CREATE, "false"): 1}
