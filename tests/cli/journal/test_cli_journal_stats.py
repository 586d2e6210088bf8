from __future__ import annotations

from pathlib import Path

from rewound.cli.journal.printing import rate
from rewound.journal import Event, Journal, retention, snapshot_writer
from tests.cases import cases
from tests.gateway.journal_commands import NOON, delete, put, run_journal, write_history


def test_stats_count_by_type(tmp_path: Path) -> None:
    write_history(
        tmp_path, [put("a"), put("a", {"x": "y"}), put("b"), delete("b"), put("k", type_name="secrets")]
    )
    document = run_journal("stats", "-o", "json", f"--data-dir={tmp_path}").document
    assert (document["head"], document["floor"], document["dialect"]) == (5, 0, "cluster")
    assert [document["oldest"], document["newest"]] == [
        "2024-05-01T12:00:01.000000Z",
        "2024-05-01T12:00:05.000000Z",
    ]
    types = {one["resource"]: (one["kind"], one["events"], one["live"]) for one in document["types"]}
    assert types == {"configmaps": ("ConfigMap", 4, 1), "secrets": ("Secret", 1, 1)}
    assert all(one["bytes"] > one["events"] * 50 for one in document["types"])
    assert document["rates"] == {"minute": 0.0, "hour": 0.0, "sinceFloor": 1.25}
    assert document["file_bytes"] >= document["used_bytes"] > 0
    assert document["map_bytes"] == 64 << 20


def test_stats_show_floor_and_snapshots(tmp_path: Path) -> None:
    write_history(tmp_path, [put(f"n{at % 5}") for at in range(20)])
    journal = Journal.open(tmp_path / "journal")
    while not retention.advance(journal, 10).done:
        pass
    list(snapshot_writer.take(journal))
    journal.close()
    document = run_journal("stats", "-o", "json", f"--data-dir={tmp_path}").document
    assert document["floor"] == 10
    assert document["snapshots"] == [{"version": "20", "offset": 20, "objects": 5}]
    lines = run_journal("stats", f"--data-dir={tmp_path}").lines
    assert "floor      10" in lines
    assert "snapshots  20 (5 objects)" in lines
    assert lines[-2].split()[:3] == ["ConfigMap", "configmaps", "15"]
    assert lines[-1].split()[0] == "all"


def test_stats_of_an_empty_journal(tmp_path: Path) -> None:
    write_history(tmp_path, [])
    result = run_journal("stats", f"--data-dir={tmp_path}")
    assert result.code == 0
    assert "newest     none" in result.lines
    document = run_journal("stats", "-o", "json", f"--data-dir={tmp_path}").document
    assert (document["newest"], document["types"]) == (None, [])


@cases(
    ("per_second", "text"),
    [(0.0, "0/s"), (53 / 3600, "53.0/h"), (53 / 60, "53.0/min"), (1.25, "1.2/s"), (2 / 86400, "2.0/day")],
)
def test_rates_are_in_a_unit_that_shows_them(per_second: float, text: str) -> None:
    assert rate(per_second) == text


def test_stats_show_the_rate_of_a_slow_journal(tmp_path: Path) -> None:
    steps = [put("a", {"n": str(at)}) for at in range(3)]
    write_history(tmp_path, steps)
    journal = Journal.open(tmp_path / "journal")
    day_later = Event(4, 1, "create", "default", "b", 0, False, NOON + 86400_000_000, "alice", "", b"", b"{}")
    journal.append([day_later])
    journal.close()
    lines = run_journal("stats", f"--data-dir={tmp_path}").lines
    assert "rate       0/s in the last minute, 0/s in the last hour, 4.0/day since the floor" in lines
