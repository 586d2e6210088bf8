"""Commands, the page and time travel show a journal with poisoned objects: each of these costs nothing but itself."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from rewound.actors.names import KUBERNETES
from rewound.cli.main import main
from rewound.journal import Journal
from tests.gateway.api import config_map, served
from tests.rewind.page.test_timeline import EVENTS, TIMELINE
from tests.robustness.poison import Poison, poisons, write
from tests.robustness.test_poisoned_objects import SETTINGS

KINDS = {"configmaps", "secrets", "deployments.apps", "pods", "nodes"}
GROUP = "/apis/rewound.cluster.io/v1"


async def poison(folder: Path, count: int = 6) -> list[Poison]:
    async with served(folder, **SETTINGS) as api:
        assert api.store is not None
        await api.create("configmaps", config_map("healthy"))
        found = [
            one
            for one in poisons(api.store.registry.current, KUBERNETES, count, 41)
            if one.type_name in KINDS
        ]
    write(folder / "data" / "journal", found, "kubernetes")
    return found


@contextlib.contextmanager
def printed() -> Iterator[io.StringIO]:
    errors = io.StringIO()
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        yield errors


async def test_commands_read_the_folder(tmp_path: Path) -> None:
    found = await poison(tmp_path)
    data = ["--data-dir", str(tmp_path / "data")]
    commands = [
        ["journal", "log"],
        ["journal", "log", "-o", "json"],
        ["journal", "diff", "1", "now"],
        ["journal", "diff", "1", "now", "-o", "json"],
        ["journal", "at", "now"],
        *(["journal", "at", "now", kind, "-A", "-o", form] for kind in KINDS for form in ("json", "wide")),
        ["journal", "stats"],
        ["rules", "test"],
    ]
    for one in found[::5]:
        named = [f"{one.type_name}/{one.name}", *(["-n", one.namespace] if one.namespace else [])]
        commands += [["journal", name, *named] for name in ("history", "blame", "suspects")]
        commands.append(["journal", "at", "now", *named])
    journal = Journal.open(tmp_path / "data" / "journal", readonly=True)
    commands += [
        ["journal", "show", str(version)] for version in range(journal.head, 0, -3)[: len(found) // 3]
    ]
    journal.close()
    failures = []
    for command in commands:
        with printed() as errors:
            code = main([*command, *data])
        if code:
            failures.append((command, code, errors.getvalue()))
    assert not failures


async def test_upgrade_is_rehearsed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await poison(tmp_path)
    assert main(["upgrade-check", "--to", "1.36", "--data-dir", str(tmp_path / "data")]) in (0, 1)
    assert "healthy" not in capsys.readouterr().out


async def test_page_and_time_travel(tmp_path: Path) -> None:
    found = await poison(tmp_path)
    failures = []
    async with served(tmp_path, **SETTINGS) as api:
        paths = [TIMELINE, EVENTS, f"{EVENTS}?q=poison", f"{EVENTS}?status=false", f"{TIMELINE}/objects"]
        for one in found[::3]:
            where = f"/namespaces/{one.namespace}" if one.namespace else ""
            paths += [f"{GROUP}{where}/{one.type_name}/{one.name}/{what}" for what in ("history", "blame")]
            asked = f"type={one.type_name}&namespace={one.namespace}&name={one.name}"
            paths.append(f"{TIMELINE}/suspects?{asked}")
        for path in paths:
            response = await api.ask("GET", path)
            if response.status != 200:
                failures.append((path, response.status, response.text[:200]))
    assert not failures
