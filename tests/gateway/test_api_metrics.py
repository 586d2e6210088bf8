"""/metrics: requests by verb, group, resource and code; unknown ones add no series."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from tests.gateway.api import Api, config_map, served

Labels = tuple[str, str, str, str]


async def requests(api: Api) -> dict[Labels, float]:
    response = await api.ask("GET", "/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = {}
    for family in text_string_to_metric_families(response.text):
        for sample in family.samples:
            if sample.name == "apiserver_request_total":
                labels = sample.labels
                found[labels["verb"], labels["group"], labels["resource"], labels["code"]] = sample.value
    return found


async def test_requests_are_counted_by_verb_and_resource() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        for _ in range(3):
            await api.get("configmaps", "a")
        await api.list("leases")
        await api.ask("GET", api.path("configmaps", name="missing"))
        await api.delete_collection("configmaps")
        counts = await requests(api)
        assert counts["POST", "", "configmaps", "201"] == 1
        assert counts["GET", "", "configmaps", "200"] == 3
        assert counts["GET", "", "configmaps", "404"] == 1
        assert counts["LIST", "coordination.cluster.io", "leases", "200"] == 1
        assert counts["DELETECOLLECTION", "", "configmaps", "200"] == 1


async def test_unknown_verbs_and_resources_add_no_series() -> None:
    async with served() as api:
        for number in range(8):
            for path in (
                f"/evil{number}",
                f"/livez/evil{number}",
                f"/apis/evil{number}",
                f"/apis/evil{number}/v1",
                f"/apis/evil{number}/v1//x",
                f"/apis/evil{number}/v1/things",
                f"/apis/evil{number}/v1/namespaces/a/things/b/c",
                f"/api/v1/evil{number}",
                f"/api/v1/namespaces/evil{number}/evil{number}/evil{number}",
                f"/api/v1/namespaces/default/configmaps/evil{number}/evil{number}",
                f"/api/evil{number}/configmaps",
            ):
                await api.ask("GET", path)
                await api.ask("GET", path, token=f"evil{number}")
            await api.ask(f"EVIL{number}", "/api/v1/configmaps")
        text = (await api.ask("GET", "/metrics")).text
        assert "evil" not in text
        assert "EVIL" not in text
        assert len(await requests(api)) < 20


async def test_statistics_of_the_server_are_metrics() -> None:
    async with served() as api:
        made = await api.create("configmaps", config_map("a"))
        text = (await api.ask("GET", "/metrics")).text
        lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        assert float(lines["rewound_journal_head"]) == int(made["metadata"]["resourceVersion"])
        assert float(lines['rewound_mailbox_received_total{type="configmaps"}']) == 1
        assert float(lines["rewound_commit_failures_total"]) == 0


async def test_metrics_need_rights() -> None:
    async with served() as api:
        assert (await api.ask("GET", "/metrics", token=None)).expect(403)["reason"] == "Forbidden"
