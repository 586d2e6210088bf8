"""A server whose journal has an event that no server can have written starts, and serves everything else."""

from __future__ import annotations

from typing import Any

import trio

from rewound.journal import Journal, keys
from tests.gateway.api import Api, config_map, served
from tests.journal.test_too_large_contents import claiming, stored

HISTORY = "/apis/rewound.cluster.io/v1/namespaces/default/configmaps"


def poison(api: Api, version: str) -> None:
    journal = Journal.open(api.settings.journal, dialect=api.settings.dialect)
    with journal.read() as view:
        event = view.event(int(version))
    assert event is not None
    database = journal.environment.databases.events
    value = stored(event, claiming(64 << 20))

    def replaced(txn: Any) -> None:
        txn.put(keys.pack_offset(event.offset), value, db=database)

    journal.environment.write(replaced)
    journal.close()


async def put(api: Api, name: str, text: str) -> str:
    body = config_map(name, text=text)
    response = await api.ask("PUT", api.path("configmaps", name=name), body)
    written = response.document if response.status == 200 else await api.create("configmaps", body)
    return str(written["metadata"]["resourceVersion"])


async def check(api: Api, text: str, poisoned: str) -> None:
    """Everything but the contents of the poisoned version of `large` is served, also after it was asked for."""
    for _ in range(2):
        assert (await api.ask("GET", "/readyz")).status == 200
        assert (await api.ask("GET", api.path("configmaps", name="other"))).expect(200)["data"] == {
            "text": "2"
        }
        assert (await api.ask("GET", api.path("configmaps", name="large"))).expect(200)["data"] == {
            "text": text
        }
        items = (await api.ask("GET", api.path("configmaps"))).expect(200)["items"]
        assert {"large", "other"} <= {one["metadata"]["name"] for one in items}
        assert (await api.ask("GET", f"{HISTORY}/other/history")).expect(200)["items"]
        versions = (await api.ask("GET", f"{HISTORY}/large/history")).expect(200)["items"]
        shown = {one["version"]: one["patch"] for one in versions}
        latest = (await api.ask("GET", api.path("configmaps", name="large"))).document["metadata"][
            "resourceVersion"
        ]
        assert (shown[poisoned] is None) == (poisoned != latest)  # the newest state has it, too
        assert any(shown.values())
        await put(api, "written", text)
        await trio.sleep(0)


async def test_in_the_middle() -> None:
    async with served() as api:
        await put(api, "large", "1")
        version = await put(api, "large", "2")
        await put(api, "large", "3")
        await put(api, "other", "1")
        await put(api, "other", "2")
        await api.finish()
        poison(api, version)
        await api.start()
        await check(api, "3", version)
        at = await api.ask("GET", api.path("configmaps", name="large"), at=version)
        assert at.status == 500


async def test_at_the_end() -> None:
    async with served() as api:
        await put(api, "other", "2")
        version = await put(api, "large", "2")
        await api.finish()
        poison(api, version)
        await api.start()
        await check(api, "2", version)
        await put(api, "large", "3")
        assert (await api.ask("GET", api.path("configmaps", name="large"))).expect(200)["data"] == {
            "text": "3"
        }
