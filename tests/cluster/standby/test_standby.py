"""A standby serves what its leader has, version by version, and refuses writes."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from rewound.actors.store import housekeeping
from rewound.cluster.standby import feed, follower
from rewound.gateway.settings.checks import SettingsError
from rewound.gateway.settings.settings import Settings, StandbySettings
from tests.api.custom.kinds import DEFINITIONS, NAME, WIDGETS, define, definition, widget
from tests.cluster.standby.pairs import floor_of, following, has_everything, standby_of, stored_bytes, url_of
from tests.gateway.api import ALICE, Api, config_map, names, served
from tests.gateway.watch.watching import watching


async def test_standby_serves_reads_lists_history_and_old_versions(tmp_path: Path) -> None:
    async with served() as leader:
        await leader.create("configmaps", config_map("early"))
        async with standby_of(leader, tmp_path) as standby:
            created = await leader.create("configmaps", config_map("late", text="one"))
            await leader.replace("configmaps", config_map("late", text="two"))
            await has_everything(standby, leader)
            version = created["metadata"]["resourceVersion"]
            timeline = "/apis/rewound.cluster.io/v1/timeline/events?order=descending&limit=3"
            history = "/apis/rewound.cluster.io/v1/namespaces/default/configmaps/late/history"
            for path in (
                leader.path("configmaps"),
                leader.path("configmaps", name="late"),
                f"{leader.path('configmaps', name='late')}?at={version}",
                f"{leader.path('configmaps')}?resourceVersion={version}&resourceVersionMatch=Exact",
                history,
                history.replace("/history", "/blame"),
                "/apis",
                "/openapi/v2",
            ):
                there, here = await leader.ask("GET", path), await standby.ask("GET", path)
                assert (there.status, here.status) == (200, 200), path
                assert here.body == there.body, path
            there, here = await leader.ask("GET", timeline), await standby.ask("GET", timeline)
            assert here.document["items"] == there.document["items"]
            assert (await standby.ask("GET", "/debug/journal/")).status == 200


async def test_standby_has_the_version_of_its_leader(tmp_path: Path) -> None:
    async with (
        served(dialect="kubernetes", kubernetes_version="1.33") as leader,
        standby_of(leader, tmp_path) as standby,
    ):
        there, here = await leader.ask("GET", "/version"), await standby.ask("GET", "/version")
        assert here.document == there.document
        assert here.document["minor"] == "33"


async def test_watch_of_a_standby_gets_what_the_leader_commits(tmp_path: Path) -> None:
    async with served() as leader, standby_of(leader, tmp_path) as standby:
        version = await standby.head()
        with trio.fail_after(30):
            async with watching(standby, standby.path("configmaps"), resourceVersion=version) as watch:
                await leader.create("configmaps", config_map("a"))
                await leader.delete("configmaps", "a")
                found = await watch.take(2)
        assert [(one["type"], one["object"]["metadata"]["name"]) for one in found] == [
            ("ADDED", "a"),
            ("DELETED", "a"),
        ]


async def test_kinds_come_and_go_with_those_of_the_leader(tmp_path: Path) -> None:
    async with served() as leader, standby_of(leader, tmp_path) as standby:
        assert (await standby.ask("GET", WIDGETS)).status == 404
        await define(leader, definition())
        (await leader.ask("POST", WIDGETS, widget("w"))).expect(201)
        await has_everything(standby, leader)
        assert names((await standby.ask("GET", WIDGETS)).expect(200)) == ["w"]
        (await leader.ask("DELETE", f"{DEFINITIONS}/{NAME}")).expect(200)
        with trio.fail_after(30):
            while (await standby.ask("GET", WIDGETS)).status != 404:
                await trio.sleep(0.005)


async def test_writes_get_405_with_the_url_of_the_leader(tmp_path: Path) -> None:
    async with served() as leader, standby_of(leader, tmp_path) as standby:
        await leader.create("configmaps", config_map("a"))
        await has_everything(standby, leader)
        head, one = await standby.head(), standby.path("configmaps", name="a")
        for method, path in (
            ("POST", standby.path("configmaps")),
            ("PUT", one),
            ("PATCH", one),
            ("DELETE", one),
            ("DELETE", standby.path("configmaps")),
            ("POST", f"{standby.path('serviceaccounts', name='default')}/token"),
            ("POST", standby.path("configmaps") + "?dryRun=All"),
        ):
            refused = await standby.ask(method, path, config_map("a"))
            status = refused.expect(405)
            assert status["reason"] == "MethodNotAllowed"
            assert url_of(leader) in status["message"] and "standby" in status["message"]
            assert refused.headers["allow"] == "GET, HEAD"
            assert "retry-after" not in refused.headers
        assert (
            await standby.ask("POST", standby.path("configmaps"), config_map("a"), token=ALICE)
        ).status == 403
        assert (await standby.ask("POST", "/api/v1/nothing", config_map("a"))).status == 404
        assert await standby.head() == head


async def test_reviews_and_rights_are_those_of_the_copied_objects(tmp_path: Path) -> None:
    async with served() as leader, standby_of(leader, tmp_path) as standby:
        assert (await standby.ask("GET", standby.path("configmaps"), token=ALICE)).status == 403
        group = "authorization.cluster.io"
        role = f"rbac.{group}/v1"
        rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]
        await leader.create("clusterroles", {"metadata": {"name": "reader"}, "rules": rules})
        binding = {
            "metadata": {"name": "alice-reads"},
            "roleRef": {"apiGroup": role.partition("/")[0], "kind": "ClusterRole", "name": "reader"},
            "subjects": [{"kind": "User", "name": "alice", "apiGroup": role.partition("/")[0]}],
        }
        await leader.create("clusterrolebindings", binding)
        await has_everything(standby, leader)
        assert (await standby.ask("GET", standby.path("configmaps"), token=ALICE)).status == 200
        review = {"spec": {"resourceAttributes": {"verb": "list", "resource": "configmaps"}}}
        path = standby.path("selfsubjectaccessreviews")
        answer = (await standby.ask("POST", path, review, token=ALICE)).expect(201)
        assert answer["status"]["allowed"] is True


async def test_feed_needs_the_right_to_get_it() -> None:
    async with served() as leader:
        assert (await leader.ask("GET", "/journal/feed", token=ALICE)).status == 403
        assert (await leader.ask("GET", "/journal/feed", token=None)).status in (401, 403)
        assert (await leader.ask("POST", "/journal/feed")).status == 405
        for query, why in (("after=x", "after: 'x' is not an offset"), ("base=1", "base: needs after")):
            assert why in (await leader.ask("GET", f"/journal/feed?{query}")).expect(400)["message"]


async def test_standby_restarts_without_its_leader_and_continues_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "LONGEST_PAUSE", 0.05)
    async with served() as leader:
        await leader.create("configmaps", config_map("a"))
        async with standby_of(leader, tmp_path) as standby:
            await has_everything(standby, leader)
            assert (await standby.ask("GET", "/readyz")).status == 200
            assert leader.addresses.insecure is not None
            port = leader.addresses.insecure[1]
            await leader.finish()
            await standby.restart()
            assert names(await standby.list("configmaps")) == ["a"]
            assert (await standby.ask("GET", "/livez")).status == 200
            assert (await standby.ask("GET", "/readyz")).status == 500
            reason = (await standby.ask("GET", "/readyz/standby")).text
            assert "behind http://127.0.0.1" in reason and "cannot reach" in reason
            assert _metric(await _metrics(standby), "rewound_standby_connected") == 0
            await leader.restart(insecure_port=port)
            await leader.create("configmaps", config_map("b"))
            await has_everything(standby, leader)
            assert names(await standby.list("configmaps")) == ["a", "b"]
            with trio.fail_after(30):
                while (await standby.ask("GET", "/readyz")).status != 200:
                    await trio.sleep(0.005)
            metrics = await _metrics(standby)
            assert _metric(metrics, "rewound_standby_lag_events") == 0
            assert _metric(metrics, "rewound_standby_connected") == 1
            assert _metric(await _metrics(leader), "rewound_journal_followers") == 1


async def _metrics(api: Api) -> str:
    return (await api.ask("GET", "/metrics")).text


def _metric(text: str, name: str) -> float:
    return float(next(line for line in text.splitlines() if line.startswith(f"{name} ")).split()[1])


async def test_standby_of_a_standby(tmp_path: Path) -> None:
    async with (
        served() as leader,
        standby_of(leader, tmp_path / "first") as first,
        standby_of(first, tmp_path / "second") as second,
    ):
        await leader.create("configmaps", config_map("a"))
        await has_everything(second, leader)
        assert names(await second.list("configmaps")) == ["a"]
        folders = [one.settings.journal for one in (leader, first, second)]
        for one in (second, first, leader):
            await one.finish()
        bytes_of = [stored_bytes(folder) for folder in folders]
        assert bytes_of[0] == bytes_of[1] == bytes_of[2]


async def test_floor_of_a_standby_is_that_of_its_leader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "INTERVAL", 0.05)
    monkeypatch.setattr(feed, "HEARTBEAT", 0.05)
    async with (
        served(journal_retention=1.0, watch_history=1.0) as leader,
        standby_of(leader, tmp_path) as standby,
    ):
        for text in "abc":
            await leader.create("configmaps", config_map(text))
        await has_everything(standby, leader)
        leader.clock.advance(5)
        with trio.fail_after(30):
            while not (there := floor_of(leader)) or floor_of(standby) != there:
                await trio.sleep(0.005)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"follow_kubeconfig": Path("x")}, "--follow-kubeconfig: has no effect without --follow"),
        ({"follow": "https://x"}, "--follow: needs either --follow-kubeconfig or --follow-token-file"),
        ({"follow": "https://x", "follow_token_file": Path("no")}, "--follow-token-file: there is no file"),
    ],
)
def test_settings_that_cannot_be_served(given: dict[str, object], why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        StandbySettings(**given)  # type: ignore[arg-type]


def test_standby_is_one_process(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--workers: does not go with --follow"):
        Settings(workers=2, standby=following(tmp_path, "https://leader"))
