"""Sets of completion indexes, as the status of a Job has them."""

from __future__ import annotations

from rewound.actors.workloads.job_indexes import Indexes, index_of, name_prefix, not_needed
from tests.at_once import at_once
from tests.cases import cases


@cases(
    ("text", "completions", "count", "written"),
    [
        ("", 5, 0, ""),
        ("0", 5, 1, "0"),
        ("0,1", 5, 2, "0,1"),
        ("0-2", 5, 3, "0-2"),
        ("0,1,2", 5, 3, "0-2"),
        ("1,3-5,7,8", 20, 6, "1,3-5,7,8"),
        ("0-9", 4, 4, "0-3"),
        ("3,7-9", 5, 1, "3"),
        ("x,2-y,3", 5, 1, "3"),
    ],
)
def test_indexes_of_a_status(text: str, completions: int, count: int, written: str) -> None:
    indexes = at_once(Indexes.read(text, completions))
    assert (len(indexes), at_once(indexes.text())) == (count, written)


def test_more_indexes_join_intervals() -> None:
    indexes = at_once(at_once(Indexes.read("1,3-5,9", 20)).with_more([2, 10, 15, 15]))
    assert at_once(indexes.text()) == "1-5,9,10,15" and len(indexes) == 8
    assert 4 in indexes and 10 in indexes and 0 not in indexes and 11 not in indexes


def test_missing_indexes_are_the_lowest() -> None:
    indexes = at_once(Indexes.read("1,3-5", 20))
    assert indexes.missing(20, 4) == [0, 2, 6, 7]
    assert indexes.missing(7, 9) == [0, 2, 6]
    assert indexes.missing(5, 9) == [0, 2]
    assert Indexes().missing(0, 3) == []


@cases(
    ("text", "index"), [("0", 0), ("17", 17), ("+3", 3), ("-1", None), ("x", None), ("", None), ("1.0", None)]
)
def test_index_of_a_pod(text: str, index: int | None) -> None:
    assert index_of({"metadata": {"annotations": {"index": text}}}, "index") == index


def test_names_of_long_jobs_keep_the_index() -> None:
    assert name_prefix("job", 12) == "job-12-"
    assert name_prefix("j" * 63, 12) == "j" * 54 + "-12-" and len(name_prefix("j" * 63, 12)) == 58


def test_of_pods_with_one_index_the_one_that_got_furthest_remains() -> None:
    def pod(name: str, index: str, node: str = "") -> dict[str, object]:
        metadata = {
            "name": name,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {"index": index},
        }
        return {"metadata": metadata, "spec": {"nodeName": node} if node else {}, "status": {}}

    pods = [pod("a", "0"), pod("b", "0", "n"), pod("c", "1"), pod("d", "5"), pod("e", "?")]
    removed, remaining = at_once(not_needed(pods, "index", 5))
    assert sorted(one["metadata"]["name"] for one in removed) == ["a", "d", "e"]
    assert sorted(one["metadata"]["name"] for one in remaining) == ["b", "c"]
