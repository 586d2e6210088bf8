"""Numbers that all processes of a server map."""

from __future__ import annotations

from pathlib import Path

from rewound.workers.shared_page import SharedPage


def pages(folder: Path) -> tuple[SharedPage, SharedPage]:
    SharedPage.create(folder / "page")
    return SharedPage(folder / "page"), SharedPage(folder / "page")


def test_what_one_process_stores_the_others_read(tmp_path: Path) -> None:
    writer, worker = pages(tmp_path)
    assert worker.newest() == 0
    writer.store_newest((1 << 63) + 5)
    assert worker.newest() == (1 << 63) + 5


def test_the_worker_with_fewer_connections_should_accept(tmp_path: Path) -> None:
    one, other = pages(tmp_path)
    first, second = one.accept_share(0, 2), other.accept_share(1, 2)
    assert not first.is_ahead() and not second.is_ahead()
    first.record(1)
    assert first.is_ahead() and not second.is_ahead()
    second.record(1)
    assert not first.is_ahead() and not second.is_ahead()


def test_the_writer_process_has_fewer_connections_the_more_others_there_are(tmp_path: Path) -> None:
    SharedPage.create(tmp_path / "page")
    shares = [SharedPage(tmp_path / "page").accept_share(index, 4) for index in range(4)]
    connections = [0] * 4
    for _ in range(40):
        index = next(index for index, share in enumerate(shares) if not share.is_ahead())
        connections[index] += 1
        shares[index].record(connections[index])
    assert connections == [4, 12, 12, 12]


def test_with_many_connections_a_small_difference_does_not_count(tmp_path: Path) -> None:
    one, other = pages(tmp_path)
    first, second = one.accept_share(0, 2), other.accept_share(1, 2)
    second.record(1000)
    first.record(1050)
    assert not first.is_ahead()
    first.record(1100)
    assert first.is_ahead()


def test_a_worker_that_starts_again_has_no_connections(tmp_path: Path) -> None:
    one, other = pages(tmp_path)
    one.accept_share(0, 2).record(7)
    second = other.accept_share(1, 2)
    second.record(1)
    assert not second.is_ahead()
    one.accept_share(0, 2)
    assert second.is_ahead()
