"""Preconditions of a delete, uid and resourceVersion: if one fails, the response is a 409."""

from __future__ import annotations

import pytest

from tests.actors.object_store import Refused
from tests.gateway.api import Opener, config_map, names, served
from tests.gateway.custom_api import generic


@generic
async def test_delete_with_matching_preconditions_succeeds(opened: Opener) -> None:
    async with opened() as api:
        made = (await api.create("configmaps", config_map("a")))["metadata"]
        both = {"uid": made["uid"], "resourceVersion": made["resourceVersion"]}
        await api.delete("configmaps", "a", body={"preconditions": both})
        assert names(await api.list("configmaps")) == []


@generic
@pytest.mark.parametrize(
    "wrong",
    [
        {"uid": "11111111-2222-3333-4444-555555555555"},
        {"uid": ""},
        {"resourceVersion": "1"},
        {"resourceVersion": "x"},
        {"resourceVersion": ""},
    ],
)
async def test_delete_with_failing_preconditions_is_a_conflict(opened: Opener, wrong: dict[str, str]) -> None:
    async with opened() as api:
        made = (await api.create("configmaps", config_map("a")))["metadata"]
        asked = {"uid": made["uid"], "resourceVersion": made["resourceVersion"], **wrong}
        with pytest.raises(Refused, match="in the precondition") as refused:
            await api.delete("configmaps", "a", body={"preconditions": asked})
        assert refused.value.reason == "Conflict"
        assert names(await api.list("configmaps")) == ["a"]


@generic
async def test_preconditions_apply_to_a_marked_object(opened: Opener) -> None:
    async with opened() as api:
        await api.create("configmaps", {"metadata": {"name": "a", "finalizers": ["example.com/held"]}})
        await api.delete("configmaps", "a")
        with pytest.raises(Refused, match="in the precondition"):
            await api.delete("configmaps", "a", body={"preconditions": {"uid": "another"}})


@generic
async def test_new_object_of_the_same_name_is_not_deleted(opened: Opener) -> None:
    async with opened() as api:
        old = (await api.create("configmaps", config_map("a")))["metadata"]["uid"]
        await api.delete("configmaps", "a")
        await api.create("configmaps", config_map("a"))
        with pytest.raises(Refused):
            await api.delete("configmaps", "a", body={"preconditions": {"uid": old}})
        assert names(await api.list("configmaps")) == ["a"]


async def test_status_names_expected_and_current_values() -> None:
    async with served() as api:
        made = (await api.create("configmaps", config_map("a")))["metadata"]
        path = api.path("configmaps", name="a")
        status = (await api.ask("DELETE", path, {"preconditions": {"resourceVersion": "7"}})).expect(409)
        assert status["message"] == (
            'Operation cannot be fulfilled on ConfigMap "a": the ResourceVersion in the precondition (7) '
            f"does not match the ResourceVersion in record ({made['resourceVersion']}). "
            "The object might have been modified"
        )
        assert status["details"] == {"name": "a", "kind": "ConfigMap"}


async def test_preconditions_may_be_in_the_query() -> None:
    async with served() as api:
        made = (await api.create("configmaps", config_map("a")))["metadata"]
        path = api.path("configmaps", name="a")
        for wrong in ("uid=x", "resourceVersion=7", "uid=&resourceVersion=0"):
            (await api.ask("DELETE", f"{path}?{wrong}")).expect(409)
        (
            await api.ask("DELETE", f"{path}?uid={made['uid']}&resourceVersion={made['resourceVersion']}")
        ).expect(200)


async def test_conflict_on_a_namespace_names_its_resource() -> None:
    async with served() as api:
        (await api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "a"}})).expect(201)
        for wrong in ({"uid": "x"}, {"uid": ""}, {"resourceVersion": "7"}):
            status = (await api.ask("DELETE", "/api/v1/namespaces/a", {"preconditions": wrong})).expect(409)
            assert status["message"].startswith(
                'Operation cannot be fulfilled on namespaces "a": Precondition failed: '
            )
            assert status["details"] == {"name": "a", "kind": "namespaces"}
