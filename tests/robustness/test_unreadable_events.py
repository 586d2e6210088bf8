"""Events that cannot be read cost the page, its index, rules, replays and the log only themselves."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from rewound.cli.main import main
from rewound.recording.replay.player import Moment
from rewound.recording.replay.replay import Plan
from tests.gateway.api import config_map, served
from tests.gateway.journal_commands import run_journal
from tests.gateway.watch.watching import watching
from tests.recording.replay.replaying import replayed
from tests.rewind.page.test_timeline import EVENTS, TIMELINE, ask
from tests.robustness.unreadable_events import (
    BODIES,
    CONTENTS,
    DAMAGED,
    FORMS,
    VERSIONS,
    name_of,
    spoil,
    spoiled,
)

NAMES = ["sound", *map(name_of, FORMS)]
FOUND = {"type": "configmaps", "namespace": "default", "limit": 100}


async def test_search_finds_all_other_events(tmp_path: Path) -> None:
    async with spoiled(tmp_path) as api:
        for color in (VERSIONS[0], VERSIONS[2]):
            items = (await ask(api, EVENTS, q=color, **FOUND))["items"]
            assert {item["name"] for item in items} == set(NAMES), color
        assert {item["name"] for item in (await ask(api, EVENTS, q="red", **FOUND))["items"]} == {"sound"}
        items = (await ask(api, EVENTS, q="admin", **FOUND))["items"]
        assert Counter(item["name"] for item in items) == dict.fromkeys(NAMES, 3)


async def test_page_shows_all_events(tmp_path: Path) -> None:
    async with spoiled(tmp_path) as api:
        items = (await ask(api, EVENTS, **FOUND))["items"]
        assert Counter(item["name"] for item in items) == dict.fromkeys(NAMES, 3)
        rows = (await ask(api, TIMELINE, type="configmaps", namespace="default"))["rows"]
        assert sum(row["total"] for row in rows) == 3 * len(NAMES)
        for status in ("only", "false"):
            (await api.ask("GET", EVENTS, status=status, **FOUND)).expect(200)
        objects = await ask(api, f"{TIMELINE}/objects", **FOUND)
        assert objects["total"] == len(NAMES)


async def test_history_and_blame_of_their_objects(tmp_path: Path) -> None:
    async with spoiled(tmp_path) as api:
        for name in NAMES:
            path = f"/apis/rewound.cluster.io/v1/namespaces/default/configmaps/{name}"
            history = (await api.ask("GET", f"{path}/history")).expect(200)
            assert len(history["items"]) == 3, name
            blame = (await api.ask("GET", f"{path}/blame")).expect(200)
            assert {one["field"] for one in blame["fields"]} >= {"data.color"}, name


async def test_they_are_counted_and_named_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with spoiled(tmp_path) as api:
        for _ in range(2):
            await ask(api, EVENTS, q="blue", **FOUND)
        text = (await api.ask("GET", "/metrics")).text
        assert f"rewound_journal_unreadable_events {len(CONTENTS)}" in text
    for form in CONTENTS:
        lines = [line for line in caplog.messages if f"configmaps default/{name_of(form)}" in line]
        assert len(lines) == 1, form


async def test_damaged_event_is_left_out_of_the_index(tmp_path: Path) -> None:
    async with served(tmp_path) as api:
        for name in ("a", "b", "c"):
            await api.create("configmaps", config_map(name, color="blue"))
        assert api.store is not None
        journal = api.store.journal
        with journal.read() as view:
            (event,) = view.history(view.types()["configmaps"], "default", "b")
        spoil(journal, event, DAMAGED)
        items = (await ask(api, EVENTS, q="blue", **FOUND))["items"]
        assert [item["name"] for item in items] == ["c", "a"]
        ready = await api.ask("GET", "/readyz/journal")
        assert (ready.status, f"event {event.offset}" in ready.text) == (500, True)


async def test_replay_plays_to_its_end(tmp_path: Path) -> None:
    async with spoiled(tmp_path) as api:
        start = next(int(item["version"]) for item in reversed((await ask(api, EVENTS, **FOUND))["items"]))
    async with replayed(tmp_path / "data", Plan(at=Moment(start, 0))) as replay:
        api = replay.api
        async with watching(api, api.path("configmaps"), resourceVersion=str(start)) as watch:
            await replay.move(action="play", speed="max")
            assert (await replay.stopped())["stopped"] == "the end"
            seen: Counter[tuple[str, str]] = Counter()
            while seen["deep", "green"] == 0:
                for event in await watch.take(1):
                    one = event["object"]
                    if "data" in one:  # of a foreign writer, but an object
                        seen[one["metadata"]["name"], one["data"]["color"]] += 1
        assert {name for name, color in seen if color == "green"} == set(NAMES)
        assert seen["sound", "red"] == 1
        listed = await api.list("configmaps")
        assert {item["metadata"]["name"] for item in listed["items"]} == set(NAMES)
        middle = start + len(NAMES) + len(NAMES) - 1
        await replay.move(action="goto", at=str(middle))
        listed = await api.list("configmaps")
        assert "sound" in [item["metadata"]["name"] for item in listed["items"] if "data" in item]


async def test_commands_read_the_folder(tmp_path: Path) -> None:
    async with spoiled(tmp_path):
        pass
    folder = str(tmp_path / "data")
    log = run_journal("log", "configmaps", "-n", "default", "--data-dir", folder, "-o", "json")
    assert log.code == 0, log.err
    assert Counter(one["name"] for one in log.documents) == dict.fromkeys(NAMES, 3)
    for form in CONTENTS:
        assert f"configmaps default/{name_of(form)}" in log.err
    for form in (*CONTENTS, *BODIES):
        for command in ("history", "blame"):
            result = run_journal(command, f"configmap/{name_of(form)}", "-n", "default", "--data-dir", folder)
            assert result.code == 0, (form, command, result.err)


async def test_rules_look_at_all_of_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with spoiled(tmp_path):
        pass
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES)
    assert main(["rules", "test", str(rules), "--data-dir", str(tmp_path / "data"), "-o", "json"]) == 0
    [found] = (one for one in json.loads(capsys.readouterr().out)["rules"] if one["name"] == "maps")
    assert found["alerts"] == 2 * len(NAMES)  # created and updated


RULES = """
apiVersion: rewound.cluster.io/v1alpha1
kind: Rules
rules:
- name: maps
  expression: event.kind == "ConfigMap" && event.namespace == "default" && event.name != "kube-root-ca.crt"
  rateLimit: {alerts: 1000, per: 1h}
  groupBy: [event.name, event.change]
"""
