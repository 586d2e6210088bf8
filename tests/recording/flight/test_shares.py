"""--max-disk: who took more than a share gives up the oldest events first; everybody else's stay."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from trio.testing import MockClock

from rewound.actors.selectors.facts import pack_facts
from rewound.journal.log import Journal
from rewound.journal.records import Event
from rewound.journal.repair.verify import verify
from rewound.recording.flight.retention import SHARE, Bounds, Retention
from rewound.recording.flight.shares import Owner, Shares, documents, measure
from rewound.recording.flight.status import used_bytes
from tests.actors.object_store import ManualClock, memory_folder
from tests.recording.flight.test_retention import Direct

LIMIT = 16 << 20
LARGE = 500_000


class Written:
    """A journal that is written as a recorder does, and looks at its size now and then."""

    def __init__(self, folder: Path) -> None:
        self.journal = Journal.open(folder / "journal")
        self.type_id = self.journal.register_type("configmaps")
        self.retention = Retention(self.journal, Direct(), ManualClock(), Bounds(max_disk=LIMIT))  # type: ignore[arg-type]
        self._random = Random(1)
        self._last: dict[tuple[str, str], int] = {}

    def put(self, namespace: str, name: str, size: int = 300) -> int:
        offset = self.journal.head + 1
        data = b64encode(self._random.randbytes(size * 3 // 4)).decode()
        body = f'{{"metadata":{{"name":"{name}","resourceVersion":"{offset}"}},"data":"{data}"}}'.encode()
        facts = pack_facts({}, {"metadata.name": name}, f"uid-{name}", [])
        previous = self._last.get((namespace, name), 0)
        verb = "update" if previous else "create"
        self.journal.append(
            [
                Event(
                    offset,
                    self.type_id,
                    verb,
                    namespace,
                    name,
                    previous,
                    False,
                    offset,
                    "u",
                    "m",
                    facts,
                    body,
                )
            ]
        )
        self._last[namespace, name] = offset
        return offset

    def quiet(self) -> list[int]:
        """A few changes of five namespaces; returns the offsets of one of them."""
        return [self.put(f"team{number % 5}", f"c{number % 10}") for number in range(500)][::5]

    def history(self, namespace: str, name: str) -> list[Event]:
        with self.journal.read() as view:
            return list(view.history(self.type_id, namespace, name))

    def check(self) -> None:
        assert used_bytes(self.journal) <= SHARE * LIMIT
        with self.journal.read() as view:
            assert verify(view).differences == []


@pytest.fixture
def written(autojump_clock: MockClock) -> Iterator[Written]:
    with memory_folder() as found:
        made = Written(found)
        yield made
        made.journal.close()


async def test_one_object_that_is_written_again_and_again_pays_for_itself(written: Written) -> None:
    written.quiet()
    kept = len(written.history("team0", "c0"))
    written.put("noisy", "small")
    written.put("noisy", "small")
    for _ in range(60):
        newest = written.put("noisy", "large", LARGE)
        await written.retention.shrink()
    written.check()
    with written.journal.read() as view:
        assert view.floor == 0
        assert {scope.split(b"\0")[-2] for scope in view.cuts} == {b"large"}
    assert len(written.history("team0", "c0")) == kept
    assert len(written.history("noisy", "small")) == 2
    large = written.history("noisy", "large")
    assert large[0].is_cut and large[-1].offset == newest and 5 < len(large) < 40


async def test_many_objects_of_one_namespace_pay_with_the_oldest(written: Written) -> None:
    written.quiet()
    kept = len(written.history("team0", "c0"))
    for number in range(80):
        written.put("noisy", f"n{number % 20}", LARGE // 2)
        written.put("noisy", f"n{number % 20}", LARGE // 20)
        await written.retention.shrink()
    written.check()
    with written.journal.read() as view:
        assert view.floor == 0
    assert len(written.history("team0", "c0")) == kept
    counts = [len(written.history("noisy", f"n{number}")) for number in range(20)]
    assert min(counts) >= 1 and sum(counts) < 160


async def test_everybody_pays_if_nobody_took_too_much(written: Written) -> None:
    for number in range(100):
        written.put(f"team{number % 5}", "large", LARGE)
        await written.retention.shrink()
    written.check()
    with written.journal.read() as view:
        assert view.floor > 0 and not view.cuts


async def test_warning_comes_before_anything_is_removed(written: Written) -> None:
    written.quiet()
    while used_bytes(written.journal) < 0.95 * SHARE * LIMIT:
        written.put("noisy", "large", LARGE // 10)
        await written.retention.shrink()
    await written.retention.scan()
    assert "namespace noisy of 6 namespaces" in written.retention.warning
    with written.journal.read() as view:
        assert view.floor == 0 and not view.cuts


def scanned(journal: Journal) -> Shares:
    *_, found = measure(journal)
    return found


async def test_figures_are_those_of_the_file_also_after_it_is_opened_again(
    written: Written, tmp_path: Path
) -> None:
    written.quiet()
    for _ in range(4):
        written.put("noisy", "large", LARGE)
    found = scanned(written.journal)
    compressed = LARGE * 3 // 4  # base64
    # The newest one stays in any case.
    assert 3 * compressed <= found.by_owner[Owner("noisy")].size <= 3.1 * compressed
    first, *others = documents(found, {written.type_id: "configmaps"})
    assert (first["namespace"], first["events"]) == ("noisy", 3) and first["percent"] > 80
    assert first["objects"] == [{"kind": "configmaps", "name": "large", "bytes": first["bytes"]}]
    assert {one["events"] for one in others} == {98}
    written.journal.close()
    written.journal = Journal.open(written.journal.path)
    assert scanned(written.journal) == found
