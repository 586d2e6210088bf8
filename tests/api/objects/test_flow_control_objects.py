"""The FlowSchemas and PriorityLevelConfigurations of a fresh server, and how the server maintains them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from rewound.actors.flowcontrol.initial_objects import MANDATORY, autoupdate_key
from rewound.actors.names import NAMES
from tests.gateway.api import Api, names, served

LEVELS, SCHEMAS = "prioritylevelconfigurations", "flowschemas"
SUGGESTED_SCHEMAS = (
    *("endpoint-controller", "global-default", "kube-controller-manager", "kube-scheduler", "probes"),
    *("service-accounts", "system-leader-election", "system-node-high", "system-nodes"),
    "workload-leader-election",
)
SUGGESTED_LEVELS = (
    *("global-default", "leader-election", "node-high", "system", "workload-high", "workload-low"),
)
MERGE = {"content-type": "application/merge-patch+json"}


async def patch(api: Api, plural: str, name: str, change: dict[str, Any]) -> dict[str, Any]:
    return (await api.ask("PATCH", api.path(plural, None, name), change, headers=MERGE)).expect(200)


async def until(api: Api, plural: str, name: str, reached: Any) -> dict[str, Any]:
    """The object as soon as the controller has brought it into this state."""
    for _ in range(1000):
        response = await api.ask("GET", api.path(plural, None, name))
        if response.status == 200 and reached(response.document):
            return response.document
        await trio.lowlevel.checkpoint()
    raise AssertionError(response.text)


def dangling(schema: dict[str, Any]) -> dict[str, str]:
    return next((one for one in schema["status"].get("conditions", ()) if one["type"] == "Dangling"), {})


@pytest.mark.parametrize("dialect", sorted(NAMES))
async def test_fresh_server_has_the_mandatory_and_suggested_objects(dialect: str) -> None:
    async with served(dialect=dialect, kubernetes_version="1.25") as api:
        system = NAMES[dialect].system_namespace
        levels, schemas = await api.list(LEVELS, None), await api.list(SCHEMAS, None)
        assert names(levels) == sorted((*MANDATORY, *SUGGESTED_LEVELS))
        assert names(schemas) == sorted((*MANDATORY, *SUGGESTED_SCHEMAS, f"{system}-service-accounts"))
        for one in (*levels["items"], *schemas["items"]):
            assert one["metadata"]["annotations"] == {autoupdate_key(NAMES[dialect]): "true"}
        for schema in schemas["items"]:
            assert dangling(schema)["status"] == "False"


@pytest.mark.parametrize("plural", [LEVELS, SCHEMAS])
@pytest.mark.parametrize("name", ["catch-all", "global-default"])
async def test_deleted_initial_object_is_recreated(plural: str, name: str) -> None:
    async with served() as api:
        before = await api.get(plural, name)
        await api.delete(plural, name)
        after = await until(api, plural, name, lambda one: True)
        assert after["metadata"]["uid"] != before["metadata"]["uid"] and after["spec"] == before["spec"]


async def test_changed_spec_of_a_suggested_object_is_restored_while_it_is_maintained() -> None:
    async with served() as api:
        before = await api.get(SCHEMAS, "service-accounts")
        await patch(api, SCHEMAS, "service-accounts", {"spec": {"matchingPrecedence": 7}})
        await until(api, SCHEMAS, "service-accounts", lambda one: one["spec"] == before["spec"])


async def test_spec_of_a_suggested_object_that_is_not_maintained_stays(tmp_path: Path) -> None:
    async with served(tmp_path) as api:
        unmaintained = {"metadata": {"annotations": {autoupdate_key(NAMES["cluster"]): "false"}}}
        await patch(api, LEVELS, "workload-low", unmaintained)
        shares = {"spec": {"limited": {"assuredConcurrencyShares": 7}}}
        await patch(api, LEVELS, "workload-low", shares)
        await api.restart()
        await patch(api, SCHEMAS, "service-accounts", {"spec": {"matchingPrecedence": 7}})
        # The controller has handled the earlier change when it has handled this one.
        await until(api, SCHEMAS, "service-accounts", lambda one: one["spec"]["matchingPrecedence"] == 9000)
        level = await api.get(LEVELS, "workload-low")
        assert level["spec"]["limited"]["assuredConcurrencyShares"] == 7


async def test_mandatory_object_gets_its_annotation_back() -> None:
    key = autoupdate_key(NAMES["cluster"])
    async with served() as api:
        await patch(api, LEVELS, "exempt", {"metadata": {"annotations": {key: "false"}}})
        await until(api, LEVELS, "exempt", lambda one: one["metadata"]["annotations"][key] == "true")


async def test_object_of_an_earlier_release_is_deleted() -> None:
    async with served() as api:
        level = await api.get(LEVELS, "workload-low")
        old = {"metadata": {"name": "old", "annotations": {autoupdate_key(NAMES["cluster"]): "true"}}}
        await api.create(LEVELS, {**old, "spec": level["spec"]})
        for _ in range(1000):
            if (await api.ask("GET", api.path(LEVELS, None, "old"))).status == 404:
                return
        raise AssertionError("the level still exists")


async def test_schema_of_a_missing_level_is_dangling_until_the_level_exists() -> None:
    async with served() as api:
        schema = await api.get(SCHEMAS, "global-default")
        spec = {**schema["spec"], "priorityLevelConfiguration": {"name": "mine"}}
        await api.create(SCHEMAS, {"metadata": {"name": "mine"}, "spec": spec})
        found = await until(api, SCHEMAS, "mine", lambda one: dangling(one).get("status") == "True")
        assert dangling(found)["reason"] == "NotFound"
        level = await api.get(LEVELS, "workload-low")
        await api.create(LEVELS, {"metadata": {"name": "mine"}, "spec": level["spec"]})
        found = await until(api, SCHEMAS, "mine", lambda one: dangling(one).get("status") == "False")
        assert dangling(found)["reason"] == "Found"
        await api.delete(LEVELS, "mine")
        await until(api, SCHEMAS, "mine", lambda one: dangling(one).get("status") == "True")
