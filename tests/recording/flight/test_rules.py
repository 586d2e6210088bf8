"""`rewound flight --rules FILE`: alerts by rules over what is being recorded; the file is followed."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
import trio
from trio.testing import MockClock

from rewound.client.errors import ClientError, UsageError
from rewound.client.session import Session
from rewound.recording.rules.source import RulesConfigMap, RulesFile
from rewound.recording.rules.watch import RulesBeside
from tests.gateway.api import Api, served
from tests.recording.flight.flying import flying
from tests.recording.record.recording import session_to

RULES = """\
apiVersion: rewound.cluster.io/v1alpha1
kind: Rules
rules:
- {name: large, expression: 'event.kind == "ConfigMap" && object.data.size == "9"', message: 'NAME {{ event.name }}'}
sinks: [stdout: {}]
"""


def config_map(name: str, size: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"size": size}}


async def test_alerts_of_a_recording(
    autojump_clock: MockClock,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    file = tmp_path / "rules.yaml"
    write(file, RULES.replace("NAME", "first"), 1)
    session: Any = None  # only Events need it
    rules = RulesBeside(RulesFile(file), "https://rewound.example", session)
    seen: list[str] = []

    async def alerted(message: str) -> dict[str, Any]:
        with trio.fail_after(6000):
            while True:
                seen.extend(capsys.readouterr().out.splitlines())
                found = [one for line in seen if (one := orjson.loads(line))["message"] == message]
                if found:
                    return dict(found[0])
                await trio.sleep(0.1)

    async with (
        served() as api,
        flying(api, tmp_path / "flight", beside=[rules], kinds=("configmaps",)) as flight,
    ):
        await flight.begun()
        await api.create("configmaps", config_map("small", "1"))
        await api.create("configmaps", config_map("a", "9"))
        alert = await alerted("first a")
        assert alert["url"].startswith(
            "https://rewound.example/debug/journal/#object=configmaps%2Fdefault%2Fa&at="
        )
        with caplog.at_level(logging.WARNING):
            write(file, RULES.replace("event.kind", "event.knd"), 2)
            with trio.fail_after(6000):
                while "the rules stay as they are" not in caplog.text:
                    await trio.sleep(0.1)
        before = rules.watch
        lost = f"webhook: {{url: 'https://127.0.0.1:1', caFile: {tmp_path / 'ca.crt'}}}"
        write(file, RULES.replace("stdout: {}", lost), 3)
        await until(lambda: "caFile" in rules.document()["problem"])
        file.unlink()
        await until(lambda: "No such file" in rules.document()["problem"])
        assert rules.watch is before
        write(file, RULES.replace("NAME", "second"), 4)
        with trio.fail_after(6000):
            while rules.watch is before:
                await trio.sleep(0.1)
        await api.create("configmaps", config_map("b", "9"))
        await alerted("second b")
        assert rules.document()["problem"] == ""
    assert [orjson.loads(line)["name"] for line in seen] == ["a", "b"]


def write(file: Path, text: str, time: int) -> None:
    file.write_text(text)
    os.utime(file, (time, time))


async def test_rules_of_a_config_map(
    autojump_clock: MockClock, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are followed; an invalid one is refused with an Event, and a sink may not read files of the recorder."""
    text = RULES.replace("NAME", "first")

    async def put(api: Api, rules: str) -> None:
        body = {**config_map("alerts", "1"), "data": {"rules.yaml": rules}}
        path = "/api/v1/namespaces/default/configmaps/alerts"
        (await api.ask("PUT", path, body)).expect(200)

    async def printed(api: Api, message: str) -> None:
        await until(lambda: message in capsys.readouterr().out)

    async with served() as api:
        await api.create("configmaps", {**config_map("alerts", "1"), "data": {"rules.yaml": text}})
        with Session(session_to(api).target) as session:
            rules = RulesBeside(RulesConfigMap("default/alerts", session), "", session)
            async with flying(api, tmp_path / "flight", beside=[rules], kinds=("configmaps",)) as flight:
                await flight.begun()
                await until(lambda: rules.watch is not None)
                await api.create("configmaps", config_map("a", "9"))
                await printed(api, "first a")
                for broken, why in (
                    (text.replace("event.kind", "event.knd"), "undefined field 'knd'"),
                    (
                        text.replace(
                            "stdout: {}", "webhook: {url: 'http://x', tokenFile: /run/secrets/token}"
                        ),
                        "files of sinks must be in /etc/rewound/sinks",
                    ),
                    (
                        text.replace(
                            "stdout: {}",
                            "webhook: {url: 'http://x', tokenFile: /etc/rewound/sinks/../../passwd}",
                        ),
                        "names /etc/rewound/sinks/../../passwd",
                    ),
                ):
                    watch = rules.watch
                    await put(api, broken)
                    with trio.fail_after(6000):
                        while why not in rules.document()["problem"]:
                            await trio.sleep(0.1)
                    assert rules.watch is watch
                events = (await api.ask("GET", "/api/v1/namespaces/default/events")).expect(200)["items"]
                ours = [one for one in events if one["reason"] == "InvalidRules"]
                assert len(ours) == 3 and all(one["involvedObject"]["name"] == "alerts" for one in ours)
                await put(api, text.replace("first", "second"))
                await until(lambda: rules.watch is not watch)
                await api.create("configmaps", config_map("b", "9"))
                await printed(api, "second b")
                assert (await flight.document())["rules"]["firing"] >= 1
                metrics = (await flight.api.ask("GET", "/metrics")).text
                assert 'rewound_rules_fired_total{rule="large"}' in metrics
                assert 'rewound_rules_sink_sent_total{sink="stdout"}' in metrics
            # Without the API server, a start has the rules that were valid last.
            lost = RulesConfigMap(
                "default/alerts", Session(replace(session.target, server="http://127.0.0.1:1"))
            )
            found = await trio.to_thread.run_sync(lost.read, tmp_path / "flight")
            assert found is not None and "large" in [one.name for one in found.rules]
            with pytest.raises(ClientError):
                lost.read(tmp_path / "flight")
    for wrong in ("", "alerts", "default/", "/x", "a/b/c"):
        with pytest.raises(UsageError, match="write configmap:NAMESPACE/NAME"):
            RulesConfigMap(wrong, session)


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(6000):
        while not condition():
            await trio.sleep(0.1)
