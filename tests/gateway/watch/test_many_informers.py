"""200 informers of one process start like those of client-go 0.35: a watch each, no list, and no error."""

from __future__ import annotations

import trio
from prometheus_client.parser import text_string_to_metric_families

from tests.actors.object_store import Document
from tests.gateway.api import labelled, served
from tests.gateway.watch.http2_watches import Connection, StreamWatch, connection

INFORMERS = 200
PATHS = (
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/configmaps",
    "/api/v1/secrets",
    "/api/v1/serviceaccounts",
    "/apis/apps/v1/deployments",
)
BEGIN = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}


class Informer:
    """A cache of objects; it starts with a watch, and after a disconnect resumes from the last version."""

    def __init__(self, path: str, query: dict[str, str]) -> None:
        self._path, self._query = path, query
        self.version = ""
        self.objects: dict[str, Document] = {}
        self._watch: StreamWatch | None = None

    async def begin(self, client: Connection) -> None:
        self._watch = await client.watch(self._path, **BEGIN, **self._query)
        assert self._watch.status == 200

    async def watch_on(self, client: Connection) -> None:
        query = {"allowWatchBookmarks": "true", **self._query}
        self._watch = await client.watch(self._path, resourceVersion=self.version, **query)

    async def sync(self) -> None:
        """Read until the bookmark that ends the initial events."""
        while True:
            if await self.next():
                return

    async def next(self) -> bool:
        """One event; True if it was that bookmark."""
        assert self._watch is not None
        (event,) = await self._watch.take(1)
        kind, metadata = event["type"], event["object"]["metadata"]
        self.version = metadata["resourceVersion"]
        if kind == "BOOKMARK":
            return metadata.get("annotations") == {"k8s.io/initial-events-end": "true"}
        assert kind in ("ADDED", "MODIFIED", "DELETED"), event
        key = f"{metadata.get('namespace')}/{metadata['name']}"
        if kind == "DELETED":
            del self.objects[key]
        else:
            self.objects[key] = event["object"]
        return False


async def test_informers_sync_without_a_list_and_without_an_error() -> None:
    async with served(dialect="kubernetes", feature_gates="WatchList=true") as api:
        for number in range(10):
            await api.create("configmaps", labelled(f"c{number}", app=str(number % 2)))
        selectors = [{}, {"labelSelector": "app=0"}, {"labelSelector": "app=1"}]
        informers = [
            Informer(PATHS[number % len(PATHS)], selectors[number // len(PATHS) % 3])
            for number in range(INFORMERS)
        ]
        with trio.fail_after(120):
            async with connection(api) as client:
                for informer in informers:
                    await informer.begin(client)
                for informer in informers:
                    await informer.sync()
                maps = informers[:: len(PATHS)]
                assert {len(one.objects) for one in maps} == {10, 5}
                await api.create("configmaps", labelled("late", app="0"))
                interested = [one for number, one in enumerate(maps) if number % 3 != 2]
                for informer in interested:
                    await informer.next()
                    assert "default/late" in informer.objects
            async with connection(api) as client:  # all reconnect
                await api.delete("configmaps", "late")
                for informer in interested:
                    await informer.watch_on(client)
                for informer in interested:
                    await informer.next()
                    assert "default/late" not in informer.objects
        families = text_string_to_metric_families((await api.ask("GET", "/metrics")).text)
        (requests,) = [one for one in families if one.name == "apiserver_request"]
        served_requests = {(one.labels["verb"], one.labels["code"]) for one in requests.samples}
        assert ("WATCH", "200") in served_requests
        assert {code for _, code in served_requests} <= {"200", "201"}
        assert "LIST" not in {verb for verb, _ in served_requests}
