"""Definitions that attack the server: they are refused, or bounded, and others are served meanwhile."""

from __future__ import annotations

from tests.gateway.api import served
from tests.gateway.custom.kinds import DEFINITIONS, GROUP, WIDGETS, define, definition, version, widget


async def test_thousands_of_versions_are_refused_or_served() -> None:
    async with served() as api:
        many = [version(f"v{index}", storage=index == 1) for index in range(1, 1501)]
        stored = await define(api, definition(*many))
        assert len(stored["spec"]["versions"]) == 1500
        group = (await api.ask("GET", f"/apis/{GROUP}")).expect(200)
        assert group["preferredVersion"]["version"] == "v1500"
        last = {**widget("a"), "apiVersion": f"{GROUP}/v1500"}
        (await api.ask("POST", WIDGETS.replace("/v1/", "/v1500/"), last)).expect(201)
        assert (await api.ask("GET", f"{WIDGETS}/a")).expect(200)["apiVersion"] == f"{GROUP}/v1"
        twice = [version("v1", storage=False) for _ in range(2000)]
        refused = (
            await api.ask("POST", DEFINITIONS, definition(*twice, plural="others", kind="Other"))
        ).expect(422)
        assert [one["field"] for one in refused["details"]["causes"]] == [
            "spec.versions",
            "spec.versions",
            "status.storedVersions",
        ]
        assert len(refused["message"]) < 10_000


async def test_enormous_lists_of_names_are_bounded() -> None:
    async with served() as api:
        names = [f"n{index}" for index in range(20_000)]
        stored = await define(api, definition(shortNames=names, categories=names))
        assert len(stored["status"]["acceptedNames"]["shortNames"]) == 20_000
        rival = definition(plural="others", kind="Other", shortNames=names)
        (await api.ask("POST", DEFINITIONS, rival)).expect(201)
        wrong = definition(plural="thirds", kind="Third", shortNames=["No!"] * 20_000)
        refused = (await api.ask("POST", DEFINITIONS, wrong)).expect(422)
        assert len(refused["details"]["causes"]) <= 101
        assert (await api.ask("GET", "/livez")).text == "ok"
