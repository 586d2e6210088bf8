"""After a promotion, a server with events that the new leader lacks is refused as a follower."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewound.journal import Journal
from rewound.journal.copy import NotPromoted, promote
from rewound.journal.errors import AlreadyOpen, CannotFollow, Diverged, NoJournal, StandbyFolder
from rewound.journal.repair.recover import recover
from rewound.journal.timelines import Timeline, before, branch, decode_timelines, encode_timelines
from tests.journal.model import Model
from tests.journal.streaming import Receiver, stream_of

ONE, TWO = Timeline(b"1" * 16, 5), Timeline(b"2" * 16, 9)


def test_timelines_up_to_an_offset() -> None:
    assert before((ONE, TWO), 5) == ()
    assert before((ONE, TWO), 6) == before((ONE, TWO), 9) == (ONE,)
    assert before((ONE, TWO), 10) == (ONE, TWO)
    branched = branch((ONE, TWO), 9)
    assert branched[:-1] == (ONE,) and branched[-1].start == 9 and branched[-1].id != TWO.id
    assert decode_timelines(encode_timelines((ONE, TWO))) == (ONE, TWO)
    assert decode_timelines(b"") == ()


class Cluster:
    """A leader with ten events, and copies of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model = Model()
        self.leader = Journal.open(folder / "leader")
        self.leader.register_type("configmaps")
        self.write(self.leader, 10)

    def write(self, journal: Journal, count: int) -> None:
        journal.append([self.model.put(f"n{self.model.head}") for _ in range(count)])

    def copy(self, name: str, *, of: Journal | None = None) -> None:
        """Make or update a copy, and close it."""
        of = of or self.leader
        receiver = Receiver(self.folder / name)
        try:
            receiver.receive(stream_of(of, *receiver.query()))
        finally:
            if receiver.copy is not None:
                receiver.close()

    def promoted(self, name: str) -> Journal:
        promote(self.folder / name)
        return Journal.open(self.folder / name)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def test_promoted_standby_is_written_and_followed(cluster: Cluster) -> None:
    cluster.copy("b")
    cluster.copy("c")
    b = cluster.promoted("b")
    with b.read() as view:
        assert [one.start for one in view.timelines] == [10]
    cluster.write(b, 3)
    cluster.copy("c", of=b)
    c = cluster.promoted("c")
    with c.read() as view:
        assert (view.head, [one.start for one in view.timelines]) == (13, [10, 13])
    b.close()
    c.close()


def test_old_leader_follows_if_it_has_nothing_of_its_own(cluster: Cluster) -> None:
    cluster.copy("b")
    cluster.leader.close()
    b = cluster.promoted("b")
    cluster.write(b, 3)
    cluster.copy("leader", of=b)
    with pytest.raises(StandbyFolder):
        Journal.open(cluster.folder / "leader")
    b.close()


def test_old_leader_with_events_of_its_own_is_refused(cluster: Cluster) -> None:
    cluster.copy("b")
    b = cluster.promoted("b")
    cluster.write(b, 3)
    other = Model(cluster.model.events[:10])
    cluster.leader.append([other.put("lost"), other.put("lost too")])
    cluster.leader.close()
    with pytest.raises(
        Diverged, match=r"two histories since 10.*the events from 11 to 12 here are not there"
    ):
        cluster.copy("leader", of=b)
    Journal.open(cluster.folder / "leader").close()  # it is still that of a leader
    b.close()


def test_promoted_standby_does_not_follow_the_old_leader(cluster: Cluster) -> None:
    cluster.copy("b")
    b = cluster.promoted("b")
    cluster.write(b, 1)
    b.close()
    other = Model(cluster.model.events[:10])
    cluster.leader.append([other.put("x"), other.put("y")])
    with pytest.raises(Diverged, match=r"is on an older timeline than the journal in .*promoted after 10"):
        cluster.copy("b")


def test_two_promoted_standbys_differ(cluster: Cluster) -> None:
    cluster.copy("b")
    cluster.copy("c")
    b, c = cluster.promoted("b"), cluster.promoted("c")
    cluster.write(b, 1)
    other = Model(cluster.model.events[:10])
    c.append([other.put("x")])
    c.close()
    with pytest.raises(Diverged, match="two histories since 10"):
        cluster.copy("c", of=b)
    b.close()


def test_leader_that_lost_commits_is_not_followed(cluster: Cluster, tmp_path: Path) -> None:
    cluster.copy("short")
    cluster.write(cluster.leader, 5)
    cluster.copy("long")
    short = Journal.open(cluster.folder / "short", readonly=True)
    with pytest.raises(Diverged, match=r"events up to 15, and .* only up to 10 of the same history"):
        cluster.copy("long", of=short)
    short.close()


def test_other_contents_at_the_same_offset_are_found(cluster: Cluster) -> None:
    cluster.copy("b")
    other = Model(cluster.model.events[:10])
    cluster.leader.append([cluster.model.put("x")])
    cluster.copy("c")
    receiver = Receiver(cluster.folder / "b")
    events = [other.put("y")]
    receiver.opened.journal.append(events)  # as if another server had written to a copy of the disk
    receiver.close()
    with pytest.raises(Diverged, match=r"event 11 of the journal in .* is not that of"):
        cluster.copy("b")


def test_another_cluster_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    cluster.copy("b")
    other = Cluster(tmp_path / "other")
    with pytest.raises(CannotFollow, match="serves another cluster"):
        cluster.copy("b", of=other.leader)
    other.leader.close()


def test_only_a_complete_standby_that_does_not_run_is_promoted(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(NoJournal):
        promote(tmp_path / "nowhere")
    cluster.leader.close()
    with pytest.raises(NotPromoted, match="needs no promotion"):
        promote(tmp_path / "leader")
    leader = Journal.open(tmp_path / "leader")
    receiver = Receiver(tmp_path / "b")
    receiver.receive(stream_of(leader)[:400])
    with pytest.raises(AlreadyOpen):
        promote(tmp_path / "b")
    receiver.close()
    with pytest.raises(NotPromoted, match="has not received everything"):
        promote(tmp_path / "b")
    leader.close()


def test_recovered_folder_keeps_its_timelines_and_stays_that_of_a_standby(cluster: Cluster) -> None:
    cluster.copy("b")
    b = cluster.promoted("b")
    cluster.write(b, 2)
    with b.read() as view:
        timelines = view.timelines
    cluster.copy("c", of=b)
    b.close()
    recover(cluster.folder / "c", cluster.folder / "recovered")
    with pytest.raises(StandbyFolder):
        Journal.open(cluster.folder / "recovered")
    found = Journal.open(cluster.folder / "recovered", readonly=True)
    with found.read() as view:
        assert view.timelines == timelines and len(timelines) == 1
    found.close()
