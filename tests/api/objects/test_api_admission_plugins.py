"""Admission plugins of an embedding program: a write that waits for one delays no other write; evictions pass them
too.
"""

from __future__ import annotations

import pytest
import trio

from rewound.actors.admission.plugin import Admitted, AsyncPlugin, rule
from rewound.actors.admission.request import CREATE, AdmissionRequest
from rewound.actors.errors import Forbidden, Resource
from rewound.server.extensions import Extensions
from tests.actors.object_store import Refused
from tests.gateway.api import config_map, served

CONFIG_MAPS = Resource("", "configmaps")


class Waiting(AsyncPlugin):
    name = "Waiting"
    mutates = (rule(CREATE, of=(CONFIG_MAPS,)),)

    def __init__(self) -> None:
        self.called, self.released = trio.Event(), trio.Event()

    async def admit(self, request: AdmissionRequest) -> Admitted:
        assert request.object is not None
        if request.name == "refused":
            raise Forbidden(CONFIG_MAPS, request.name, "admission plugin Waiting denied the request")
        if request.name == "slow":
            self.called.set()
            await self.released.wait()
        return Admitted({**request.object, "data": {"by": "plugin"}})


async def test_write_waits_for_its_plugin_and_others_continue() -> None:
    plugin = Waiting()
    extensions = Extensions(admission_plugins=[plugin])
    async with served(extensions=extensions) as api, trio.open_nursery() as nursery:
        nursery.start_soon(api.create, "configmaps", config_map("slow"))
        await plugin.called.wait()
        made = await api.create("configmaps", config_map("quick"))
        assert made["data"] == {"by": "plugin"}
        listed = await api.list("configmaps")
        assert [one["metadata"]["name"] for one in listed["items"]] == ["quick"]
        metrics = (await api.ask("GET", "/metrics")).text.splitlines()
        assert {"rewound_admission_waiting 1", "rewound_admission_calls_total 2"} <= set(metrics)
        plugin.released.set()
        with trio.fail_after(60):
            while len((await api.list("configmaps"))["items"]) < 2:
                await trio.sleep(0.01)
        with pytest.raises(Refused, match="admission plugin Waiting denied the request"):
            await api.create("configmaps", config_map("refused"))


PODS = Resource("", "pods")


class EvictionReview(AsyncPlugin):
    """Refuses the eviction of `kept`, and gives the others a precondition."""

    name = "EvictionReview"
    mutates = (rule(CREATE, of=(PODS,), subresources=("eviction",)),)

    async def admit(self, request: AdmissionRequest) -> Admitted:
        assert request.object is not None
        assert (request.operation, request.subresource, request.namespace) == (CREATE, "eviction", "default")
        if request.name == "kept":
            raise Forbidden(PODS, request.name, "not now")
        options = {"preconditions": {"uid": "other"}} if request.name == "changed" else {}
        return Admitted({**request.object, "deleteOptions": options}, ("evicted with care",))


async def test_eviction_passes_admission_before_the_pod_is_deleted() -> None:
    extensions = Extensions(admission_plugins=[EvictionReview()])
    async with served(extensions=extensions) as api:
        for name in ("kept", "changed", "free"):
            spec = {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 0}
            await api.create("pods", {"metadata": {"name": name}, "spec": spec})
        responses = {}
        for name in ("kept", "changed", "free"):
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
            responses[name] = await api.ask("POST", f"{api.path('pods', name=name)}/eviction", body)
        assert responses["kept"].expect(403)["message"] == 'pods "kept" is forbidden: not now'
        assert responses["changed"].status == 409
        assert responses["free"].status == 201
        assert "evicted with care" in responses["free"].warnings[0]
        left = [one["metadata"]["name"] for one in (await api.list("pods"))["items"]]
        assert left == ["changed", "kept"]
