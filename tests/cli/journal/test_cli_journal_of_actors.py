"""Commands on journals that the actors wrote, with finalizers, collections and controllers."""

from __future__ import annotations

from pathlib import Path

import trio

from tests.actors.object_store import ManualClock, Store
from tests.gateway.journal_commands import run_journal


async def written(folder: Path) -> None:
    async with trio.open_nursery() as nursery:
        store = Store(folder, ManualClock())
        await store.start(nursery)
        store.clock.advance(1)
        held = {"metadata": {"name": "held", "finalizers": ["example.org/hold"]}, "data": {"a": "1"}}
        await store.create("configmaps", held)
        store.clock.advance(1)
        await store.delete("configmaps", "held")
        store.clock.advance(1)
        freed = {"metadata": {"name": "held"}, "data": {"a": "1"}}
        await store.replace("configmaps", freed)
        await store.create("secrets", {"metadata": {"name": "key"}, "data": {"k": "YWJj"}})
        await store.delete_collection("secrets")
        store.stop()


async def test_deletion_with_finalizers_has_two_events(tmp_path: Path) -> None:
    await written(tmp_path)
    data = f"--data-dir={tmp_path}"
    history = run_journal("history", "cm", "default/held", "-o", "json", "--reverse", data).document["items"]
    assert [(version["verb"], version.get("deleted", False)) for version in history] == [
        ("create", False),
        ("delete", False),
        ("update", True),
    ]
    assert "metadata.deletionTimestamp" in {change["path"] for change in history[1]["changes"]}
    removed = run_journal("show", history[2]["version"], "-o", "json", data).document
    assert removed["object"]["data"] == {"a": "1"}
    assert [line.split()[4] for line in run_journal("log", "--kind=secrets", data).lines[1:]] == [
        "create",
        "deletecollection",
    ]
    assert run_journal("verify", data).lines[-1] == "sound"


async def test_import_restores_a_journal_of_the_actors(tmp_path: Path) -> None:
    await written(tmp_path / "one")
    assert run_journal("export", tmp_path / "x.gz", f"--data-dir={tmp_path / 'one'}").code == 0
    assert run_journal("import", tmp_path / "x.gz", f"--data-dir={tmp_path / 'two'}").code == 0
    for words in (["log", "-o", "json"], ["state", "-o", "yaml"], ["state", "--at=6"], ["verify"]):
        one, two = (run_journal(*words, f"--data-dir={tmp_path / name}") for name in ("one", "two"))
        assert one.out.replace(f"{tmp_path}/one", f"{tmp_path}/two") == two.out
        assert (one.code, one.err) == (two.code, two.err) == (0, "")
