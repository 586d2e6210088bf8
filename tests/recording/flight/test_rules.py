"""`rewound flight --rules FILE`: alerts by rules over what is being recorded; the file is followed."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import orjson
import pytest
import trio
from trio.testing import MockClock

from rewound.recording.rules.watch import RulesBeside
from tests.gateway.api import served
from tests.recording.flight.flying import flying

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
    rules = RulesBeside(file, "https://rewound.example", session)
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
        write(file, RULES.replace("NAME", "second"), 3)
        before = rules.watch
        with trio.fail_after(6000):
            while rules.watch is before:
                await trio.sleep(0.1)
        await api.create("configmaps", config_map("b", "9"))
        await alerted("second b")
    assert [orjson.loads(line)["name"] for line in seen] == ["a", "b"]


def write(file: Path, text: str, time: int) -> None:
    file.write_text(text)
    os.utime(file, (time, time))
