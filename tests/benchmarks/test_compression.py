"""What compares ways to compress events: it runs on a data folder, and makes dictionaries that zstd takes."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
import zstandard

from benchmarks.decisions import compression
from rewound.journal.log import Journal
from rewound.journal.records import Event


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    journal = Journal.open(tmp_path / "data" / "journal", durable=False)
    number, random = journal.register_type("configmaps"), Random(3)
    for offset in range(1, 401):
        said = " ".join(random.choice(("limit", "colour", "replicas", "timeout", "path")) for _ in range(20))
        body = b'{"metadata":{"name":"n","resourceVersion":"%d"},"data":{"text":"%b"}}' % (
            offset,
            said.encode(),
        )
        verb = "update" if offset > 1 else "create"
        journal.append(
            [Event(offset, number, verb, "default", "n", offset - 1, False, offset, "u", "m", b"\x90", body)]
        )
    journal.close()
    return tmp_path / "data"


def test_ways_are_compared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compression.compare(folder)
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| z")]
    assert len(rows) == 4 and "with the dictionary" in rows[-1]


def test_dictionary_is_made(folder: Path, tmp_path: Path) -> None:
    compression.train(tmp_path / "made", [folder])
    dictionary = zstandard.ZstdCompressionDict((tmp_path / "made").read_bytes())
    assert dictionary.dict_id() == 1
