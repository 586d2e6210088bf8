"""A write that waits for an asynchronous admission plugin delays no other write."""

from __future__ import annotations

import pytest
import trio

from actors.admission.plugin import Admitted, AsyncPlugin, rule
from actors.admission.request import CREATE, AdmissionRequest
from actors.errors import Forbidden, Resource
from gateway.extensions import Extensions
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
        assert {"rewound_admission_waiting 1.0", "rewound_admission_calls_total 2.0"} <= set(metrics)
        plugin.released.set()
        with trio.fail_after(60):
            while len((await api.list("configmaps"))["items"]) < 2:
                await trio.sleep(0.01)
        with pytest.raises(Refused, match="admission plugin Waiting denied the request"):
            await api.create("configmaps", config_map("refused"))
