"""Old renewals of leases are dropped; reads of older versions say so, and have everything but the times."""

from __future__ import annotations

from functools import partial

from rewound.actors.store.housekeeping import only_renews
from rewound.journal import Journal
from rewound.journal.thinning import thin
from tests.actors.object_store import Document
from tests.gateway.api import Api, config_map, served

LEASE = "/apis/coordination.cluster.io/v1/namespaces/default/leases/leader"
GROUP = "/apis/rewound.cluster.io/v1/namespaces/default/leases.coordination.cluster.io/leader"
WARNING = "older renewals of leases.coordination.cluster.io were dropped before"


def lease(holder: str, second: int, **metadata: str) -> Document:
    return {
        "apiVersion": "coordination.cluster.io/v1",
        "kind": "Lease",
        "metadata": {"name": "leader", **metadata},
        "spec": {"holderIdentity": holder, "renewTime": f"2030-01-01T00:00:{second:02}.000000Z"},
    }


async def held(api: Api) -> list[str]:
    """Two holders, one after the other, who renew a lease; returns its versions."""
    made = (await api.ask("POST", LEASE.removesuffix("/leader"), lease("one", 0))).expect(201)
    versions = [made["metadata"]["resourceVersion"]]
    for second in range(1, 20):
        api.clock.advance(10)
        holder = "one" if second < 10 else "two"
        renewed = (await api.ask("PUT", LEASE, lease(holder, second, resourceVersion=versions[-1]))).expect(
            200
        )
        versions.append(renewed["metadata"]["resourceVersion"])
    await api.create("configmaps", config_map("newest"))
    return versions


async def thinned(api: Api, upto: str) -> None:
    await api.finish()
    journal = Journal.open(api.settings.journal)
    assert sum(thin(journal, journal.type_id("leases.coordination.cluster.io"), int(upto), only_renews)) == 16
    journal.close()
    await api.start(prepared=True)


async def test_reads_of_thinned_versions_warn_and_differ_in_times_only() -> None:
    async with served() as api:
        versions = await held(api)
        await thinned(api, versions[18])
        ask = partial(api.ask, "GET")
        old = await ask(LEASE, at=versions[5])
        assert WARNING in old.headers["warning"]
        assert old.expect(200)["spec"] == lease("one", 0)["spec"]
        listed = await ask(LEASE.removesuffix("/leader"), at=versions[12])
        assert WARNING in listed.headers["warning"]
        assert listed.expect(200)["items"][0]["spec"]["holderIdentity"] == "two"
        exact = await ask(LEASE, at=versions[18])
        assert exact.expect(200)["spec"] == lease("two", 18)["spec"]
        assert "warning" not in exact.headers
        assert "warning" not in (await ask("/api/v1/namespaces/default/configmaps", at=versions[5])).headers


async def test_history_has_every_holder_and_says_what_is_missing() -> None:
    async with served() as api:
        versions = await held(api)
        await thinned(api, versions[18])
        found = await api.ask("GET", f"{GROUP}/history")
        assert WARNING in found.headers["warning"]
        kept = [item["version"] for item in found.expect(200)["items"]]
        assert kept == [versions[19], versions[18], versions[10], versions[0]]
        blamed = (await api.ask("GET", f"{GROUP}/blame")).expect(200)
        holder = [one for one in blamed["fields"] if one["field"] == "spec.holderIdentity"]
        assert [one["version"] for one in holder] == [versions[10]]


async def test_page_says_what_is_missing() -> None:
    async with served() as api:
        versions = await held(api)
        page = "/apis/rewound.cluster.io/v1/timeline/events?type=leases.coordination.cluster.io"
        before = await api.ask("GET", page)
        assert len(before.expect(200)["items"]) == 20
        await thinned(api, versions[18])
        after = await api.ask("GET", page)
        assert WARNING in after.headers["warning"]
        document = after.expect(200)
        assert len(document["items"]) == 4
        assert [one["type"] for one in document["thinned"]] == ["leases.coordination.cluster.io"]
