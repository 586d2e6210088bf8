"""/metrics has what Kubernetes dashboards read, with its names and labels; unknown resources add no series."""

from __future__ import annotations

import re

from tests.api.webhooks.hooking import hooking
from tests.gateway.api import ALICE, Api, config_map, served
from tests.gateway.watch.watching import watching
from tests.settling import settled

LINE = re.compile(r"([a-z_]+)(?:{(.*)})? (\S+)")
MAPS = "/api/v1/namespaces/default/configmaps"
Labels = tuple[tuple[str, str], ...]


async def scraped(api: Api) -> dict[str, dict[Labels, float]]:
    """Values by name and labels."""
    response = await api.ask("GET", "/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    found: dict[str, dict[Labels, float]] = {}
    for line in response.text.splitlines():
        if line.startswith("#"):
            continue
        matched = LINE.fullmatch(line)
        assert matched is not None, line
        labels = tuple(sorted(re.findall(r'([a-z_]+)="([^"]*)"', matched[2] or "")))
        found.setdefault(matched[1], {})[labels] = float(matched[3])
    return found


async def requests(api: Api) -> dict[Labels, float]:
    return (await scraped(api)).get("apiserver_request_total", {})


def of(**named: str) -> Labels:
    usual = {"group": "", "version": "v1", "resource": "configmaps", "subresource": "", "scope": "resource"}
    return tuple(sorted({**usual, "component": "apiserver", **named}.items()))


def counted(verb: str, code: str, **named: str) -> Labels:
    return of(**{"verb": verb, "code": code, "dry_run": "", **named})


async def test_requests_are_counted_by_verb_and_resource() -> None:
    apply = {"content-type": "application/apply-patch+yaml"}
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        for _ in range(3):
            await api.get("configmaps", "a")
        await api.list("leases")
        await api.ask("GET", api.path("configmaps", name="missing"))
        await api.ask("POST", f"{MAPS}?dryRun=All", config_map("b"))
        applied = {**config_map("c"), "apiVersion": "v1", "kind": "ConfigMap"}
        (await api.ask("PATCH", f"{MAPS}/c?fieldManager=m", applied, headers=apply)).expect(201)
        await api.delete_collection("configmaps")
        await api.ask("GET", "/livez")
        counts = await requests(api)
    assert counts[counted("POST", "201")] == 1
    assert counts[counted("POST", "201", dry_run="All")] == 1
    assert counts[counted("GET", "200")] == 3
    assert counts[counted("GET", "404")] == 1
    assert counts[counted("APPLY", "201")] == 1
    leases = {"group": "coordination.cluster.io", "resource": "leases"}
    assert counts[counted("LIST", "200", **leases, scope="namespace")] == 1
    assert counts[counted("DELETE", "200", scope="namespace")] == 1
    path = {"version": "", "resource": "", "subresource": "/livez", "scope": "", "component": ""}
    assert counts[counted("GET", "200", **path)] == 1


async def test_requests_that_no_handler_gets_are_counted_elsewhere() -> None:
    async with served() as api:
        before = await requests(api)
        for method, path, token, status in (
            ("GET", f"{MAPS}/a", ALICE, 403),
            ("GET", f"{MAPS}/a", "wrong", 401),
            ("POST", f"{MAPS}/a", None, 403),
        ):
            assert (await api.ask(method, path, token=token)).status == status
        for method, path, status in (
            ("GET", "/api/v1/nothing", 404),
            ("POST", f"{MAPS}/a", 405),
            ("GET", "/nowhere", 404),
            ("GET", "/apis", 200),
        ):
            assert (await api.ask(method, path)).status == status
        found = await scraped(api)
    assert found.get("apiserver_request_total", {}) == before
    others = {dict(labels)["code"]: value for labels, value in found["rewound_other_requests_total"].items()}
    assert (others["401"], others["403"], others["404"], others["405"]) == (1, 2, 2, 1)
    attempts = {dict(labels)["result"]: value for labels, value in found["authentication_attempts"].items()}
    assert attempts["error"] == 1
    assert attempts["success"] >= 6


async def test_watches_are_counted_when_they_end_and_their_events_when_sent() -> None:
    kind = tuple(sorted({"group": "", "version": "v1", "kind": "ConfigMap"}.items()))
    ended = counted("WATCH", "200", scope="namespace")
    async with served() as api:
        await api.create("configmaps", config_map("a", k="x" * 2000))
        async with watching(api, MAPS) as watch:
            await api.create("configmaps", config_map("b"))
            await watch.take(2)
            found = await scraped(api)
            assert found["apiserver_longrunning_requests"][of(verb="WATCH", scope="namespace")] == 1
            assert ended not in found["apiserver_request_total"]
        await settled()
        found = await scraped(api)
    assert found["apiserver_request_total"][ended] == 1
    assert set(found["apiserver_longrunning_requests"].values()) == {0}
    assert found["apiserver_watch_events_total"][kind] == 2
    sizes = found["apiserver_watch_events_sizes_bucket"]
    by_bound = {dict(labels)["le"]: value for labels, value in sizes.items() if set(kind) <= set(labels)}
    assert (by_bound["1024"], by_bound["4096"], by_bound["+Inf"]) == (1, 2, 2)


async def test_objects_writes_and_queues_are_measured() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        await api.create("configmaps", config_map("b"))
        (await api.ask("DELETE", f"{MAPS}/b")).expect(200)
        found = await scraped(api)
        listed = (await api.ask("GET", "/api/v1/configmaps")).expect(200)["items"]
    objects = {
        dict(labels)["resource"]: value for labels, value in found["apiserver_storage_objects"].items()
    }
    assert objects["configmaps"] == len(listed)
    assert "deployments.apps" in objects and "bindings" not in objects
    writes = {
        (dict(labels)["operation"], dict(labels)["type"]): value
        for labels, value in found["etcd_request_duration_seconds_count"].items()
    }
    assert writes["create", "*core.ConfigMap"] >= 2
    assert writes["delete", "*core.ConfigMap"] == 1
    assert found["workqueue_adds_total"]
    assert sum(found["apiserver_current_inflight_requests"].values()) >= 1


async def test_deprecated_versions_that_were_requested_are_shown() -> None:
    path = "/apis/autoscaling/v2beta2/namespaces/default/horizontalpodautoscalers"
    async with served() as api:
        assert "apiserver_requested_deprecated_apis" not in await scraped(api)
        (await api.ask("GET", path)).expect(200)
        found = (await scraped(api))["apiserver_requested_deprecated_apis"]
    [(labels, value)] = found.items()
    assert value == 1
    assert dict(labels) == {
        "group": "autoscaling",
        "version": "v2beta2",
        "resource": "horizontalpodautoscalers",
        "subresource": "",
        "removed_release": "1.26",
    }


async def test_slo_durations_are_without_webhooks() -> None:
    async with hooking() as hooks:
        await hooks.configure("mutating", hooks.hook("a.example.com"))
        (await hooks.create("a")).expect(201)
        found = await scraped(hooks.api)
    labels = of(verb="POST")
    whole = found["apiserver_request_duration_seconds_sum"][tuple(sorted((*labels, ("dry_run", ""))))]
    slo = found["apiserver_request_slo_duration_seconds_sum"][labels]
    calls = sum(found["apiserver_admission_webhook_admission_duration_seconds_sum"].values())
    assert abs(whole - slo - calls) < 1e-6


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
