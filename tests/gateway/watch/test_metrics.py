"""/metrics has, by resource type: watch groups, sweeping and lagging watches, events encoded and delivered."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from tests.gateway.api import Api, config_map, labelled, served
from tests.gateway.watch.watching import stalling_plain_transports, watching
from tests.settling import settled


async def measured(api: Api, kind: str = "configmaps") -> dict[str, float]:
    response = await api.ask("GET", "/metrics")
    found = {}
    for family in text_string_to_metric_families(response.text):
        for sample in family.samples:
            if sample.name.startswith("rewound_watch") and sample.labels == {"type": kind}:
                found[sample.name.removeprefix("rewound_")] = sample.value
    return found


async def test_metrics_count_groups_and_deliveries() -> None:
    async with served() as api:
        path, at = api.path("configmaps"), await api.head()
        assert await measured(api) == {}
        async with (
            watching(api, path, resourceVersion=at) as one,
            watching(api, path, resourceVersion=at) as two,
            watching(api, path, resourceVersion=at, labelSelector="app=x") as three,
        ):
            await api.create("configmaps", config_map("a"))
            await api.create("configmaps", labelled("b", app="x"))
            for watch, count in ((one, 2), (two, 2), (three, 1)):
                await watch.take(count)
            assert await measured(api) == {
                "watch_groups": 2,
                "watchers_sweeping": 3,
                "watchers_lagging": 0,
                "watch_selectors_tried_total": 1,
                "watch_groups_woken_total": 3,
                "watch_frames_total": 3,
                "watch_deliveries_total": 5,
                "watch_lagged_total": 0,
                "watch_expired_total": 0,
            }
            assert await measured(api, "leases.coordination.cluster.io") == {}
        await settled()
        now = await measured(api)
        assert (now["watch_groups"], now["watchers_sweeping"], now["watch_deliveries_total"]) == (0, 0, 5)


@stalling_plain_transports
async def test_metrics_count_lagging_watches(transport: str) -> None:
    async with served() as api:
        path, at = api.path("configmaps"), await api.head()
        async with watching(api, path, transport, stalled=True, resourceVersion=at) as watch:
            await settled()
            for number in range(12):
                await api.create("configmaps", config_map(f"c-{number:02}", big="x" * 100_000))
            now = await measured(api)
            assert (now["watchers_sweeping"], now["watchers_lagging"]) == (0, 1)
            assert now["watch_lagged_total"] >= 1
            assert now["watch_deliveries_total"] < 12
            watch.resume()  # type: ignore[attr-defined]
            await watch.take(12)
            await settled()
            now = await measured(api)
            assert (now["watchers_sweeping"], now["watchers_lagging"]) == (1, 0)
            assert now["watch_deliveries_total"] == 12


async def test_selectors_add_no_series() -> None:
    async with served() as api:
        for number in range(20):
            async with watching(api, api.path("configmaps"), labelSelector=f"evil{number}"):
                pass
        assert "evil" not in (await api.ask("GET", "/metrics")).text
