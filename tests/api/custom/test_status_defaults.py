"""A custom object whose status has not been set is served with the default of `status`, as in v1.25."""

from __future__ import annotations

from typing import Any

from tests.api.custom.kinds import APPLY, MERGE, WIDGETS, define, definition, version, widget
from tests.gateway.api import served
from tests.gateway.watch.watching import watching

# The first form is the one in Flux's definitions.
OBSERVED: dict[str, Any] = {
    "type": "object",
    "default": {"observedGeneration": -1},
    "properties": {
        "observedGeneration": {"type": "integer"},
        "phase": {"type": "string", "default": "Pending"},
        "inner": {"type": "object", "properties": {"deep": {"type": "string", "default": "d"}}},
    },
}
DEFAULT = {"observedGeneration": -1, "phase": "Pending"}


def with_status(status: dict[str, Any], name: str = "v1", **more: Any) -> dict[str, Any]:
    declared = version(name, subresources={"status": {}}, **more)
    declared["schema"]["openAPIV3Schema"]["properties"]["status"] = status
    return declared


async def test_status_has_its_default_from_the_create_on() -> None:
    async with served() as api:
        await define(api, definition(with_status(OBSERVED)))
        async with watching(api, WIDGETS) as watch:
            sent = widget("a", status={"observedGeneration": 7})
            dry = (await api.ask("POST", WIDGETS, sent, dryRun="All")).expect(201)
            created = (await api.ask("POST", WIDGETS, sent)).expect(201)
            [added] = await watch.take(1)
        read = (await api.ask("GET", f"{WIDGETS}/a")).expect(200)
        [listed] = (await api.ask("GET", WIDGETS)).expect(200)["items"]
        shown = [one["status"] for one in (dry, created, added["object"], read, listed)]
        assert shown == [DEFAULT] * 5
        [entry] = created["metadata"]["managedFields"]
        assert "f:status" not in entry["fieldsV1"]  # nobody owns a default


async def test_updates_keep_the_default_and_the_generation() -> None:
    async with served() as api:
        await define(api, definition(with_status(OBSERVED)))
        created = (await api.ask("POST", WIDGETS, widget("a"))).expect(201)
        replaced = (await api.ask("PUT", f"{WIDGETS}/a", {**created, "status": {"phase": "x"}})).expect(200)
        assert replaced["status"] == DEFAULT
        assert replaced["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]
        patched = await api.ask(
            "PATCH", f"{WIDGETS}/a/status", {"status": {"observedGeneration": 1, "inner": {}}}, headers=MERGE
        )
        set_ = {"observedGeneration": 1, "phase": "Pending", "inner": {"deep": "d"}}
        assert patched.expect(200)["status"] == set_
        removed = await api.ask("PATCH", f"{WIDGETS}/a/status", {"status": None}, headers=MERGE)
        assert removed.expect(200)["status"] == DEFAULT
        assert removed.expect(200)["metadata"]["generation"] == 1


async def test_an_applied_object_has_the_default() -> None:
    async with served() as api:
        await define(api, definition(with_status(OBSERVED)))
        applied = await api.ask("PATCH", f"{WIDGETS}/a", widget("a"), headers=APPLY, fieldManager="m")
        assert applied.expect(201)["status"] == DEFAULT


async def test_the_storage_version_says_which_default() -> None:
    """If several versions have a default for the status, that of the storage version is used."""
    async with served() as api:
        other = {**OBSERVED, "default": {"phase": "Other"}}
        await define(api, definition(with_status(OBSERVED), with_status(other, name="v2", storage=False)))
        path = WIDGETS.replace("/v1/", "/v2/")
        created = (await api.ask("POST", path, {**widget("a"), "apiVersion": "example.com/v2"})).expect(201)
        assert created["status"] == DEFAULT


async def test_an_absent_status_has_no_defaults_inside() -> None:
    async with served() as api:
        await define(api, definition(with_status({**OBSERVED, "default": None})))
        created = (await api.ask("POST", WIDGETS, widget("a"))).expect(201)
        assert "status" not in created


async def test_a_null_that_the_schema_allows_is_no_absent_status() -> None:
    async with served() as api:
        await define(api, definition(with_status({**OBSERVED, "nullable": True})))
        created = (await api.ask("POST", WIDGETS, widget("a"))).expect(201)
        nulled = (await api.ask("PUT", f"{WIDGETS}/a/status", {**created, "status": None})).expect(200)
        read = (await api.ask("GET", f"{WIDGETS}/a")).expect(200)
        assert (nulled["status"], read["status"]) == (None, None)


async def test_a_required_status_cannot_be_created() -> None:
    """The default is added after validation, which sees the object without a status."""
    async with served() as api:
        declared = with_status(OBSERVED)
        declared["schema"]["openAPIV3Schema"]["required"] = ["status"]
        await define(api, definition(declared))
        refused = (await api.ask("POST", WIDGETS, widget("a"))).expect(422)
        assert refused["details"]["causes"][0]["field"] == "status"
