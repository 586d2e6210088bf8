"""Runs three nodes on three etcd members through rounds of random faults; at the end, validates what clients
received.

A round lists all objects, sends random traffic through all nodes while members and nodes are killed, paused and cut
off (`tests.network`) and clocks of nodes are stepped, then restarts what has ended and waits until all nodes have the
same state. Watchers continue through all rounds and connect to another node each time. The clock of a node also
changes with each start. The seed decides everything that a test can decide.

A request that gets 500, 503 or 504, or no response, may have taken effect or not, until the round has ended.
"""

from __future__ import annotations

import random
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from rewound.journal import Journal
from tests.etcd_members import EtcdMember
from tests.local_cluster import LocalCluster, NodeProcess, local_cluster
from tests.network import MODES, Ends, Mode
from tests.robustness import cluster as one_server
from tests.robustness.client import Client, ConnectionBroken, ServerGone
from tests.robustness.client_cache import ClientCache
from tests.robustness.guarantees import GuaranteeBroken, WatchGuaranteeBroken
from tests.robustness.history import History, PagedList, ServerRun
from tests.robustness.interest import random_interest
from tests.robustness.journal_contents import read_journal
from tests.robustness.journal_follower import JournalFollower
from tests.robustness.objects import KINDS, TEST_KEYS, Document, key_of
from tests.robustness.observations import Observations
from tests.robustness.random_client import RECENT, RandomClient, Step
from tests.robustness.requests import fetch_page
from tests.robustness.signal_schedule import SignalSchedule
from tests.robustness.transports import TRANSPORTS
from tests.robustness.validate import validate
from tests.robustness.validate.watch import validate_watches
from tests.robustness.watcher import Watcher
from tests.robustness.watching_client import STARTS, WatchingClient, WatchSettings

CLIENTS = 5
WATCHERS = 8
WATCH_WINDOW = 300.0  # seconds, the default of the server
FAULT_SECONDS = (0.5, 4.0)  # of a pause or a cut: longer than the lease of the election
LARGEST_SKEW = 60.0  # seconds between the clock of a node and the machine's
FAULTS = (
    *("kill member", "pause member", "cut member"),
    *("kill node", "pause node", "cut node", "step clock of node"),
)
SETTLE_SECONDS = 90.0  # a bound for a busy machine
_BETWEEN_SECONDS = 0.05
_UNCERTAIN = (500, 503, 504)
_WRITES = (
    'apiserver_current_inflight_requests{request_kind="mutating"} ',
    "rewound_commit_waiting_events ",
)


class AnyNode:
    """Looks like a `Cluster`, but each connection goes to another node."""

    def __init__(self, nodes: list[NodeProcess], rng: random.Random) -> None:
        self._nodes, self._rng = nodes, rng

    @property
    def port(self) -> int:
        return self._rng.choice(self._nodes).port

    @property
    def secure_port(self) -> int:
        return self._rng.choice(self._nodes).secure_port


class NodesClient(Client):
    """A connection to one node after the other."""

    def __init__(self, nodes: AnyNode) -> None:
        super().__init__(0)
        self._nodes = nodes

    def call(
        self, method: str, path: str, body: Document | None = None, sent: Callable[[], None] = lambda: None
    ) -> tuple[int, Document]:
        status, response = super().call(method, path, body, sent)
        if status in _UNCERTAIN:
            self.close()
            raise ConnectionBroken
        return status, response

    def _connected(self):  # type: ignore[no-untyped-def]
        if self._connection is None or self._connection.sock is None:
            self._port = self._nodes.port
        return super()._connected()


class SteadyClient(RandomClient):
    """Sends requests until it is stopped, through any node that serves."""

    def _do(self, step: Step) -> None:
        try:
            step()
        except (ConnectionBroken, ServerGone):
            time.sleep(_BETWEEN_SECONDS)

    def _list(self) -> None:
        """A node serves a list with a version from its copy, which may be older than what other nodes serve."""
        paged, versions = self._paged_list(), self._cache.versions[-RECENT:]
        if not versions or self._rng.random() >= 0.3:
            self._read_pages(paged)
            return
        paged.version, paged.match = self._rng.choice(versions), "NotOlderThan"
        fetch_page(self._client, paged)
        shown = paged.pages[0].version if paged.pages else paged.version
        assert shown >= paged.version, f"{paged} shows {shown}"


@dataclass(frozen=True, slots=True)
class Tally:
    rounds: int = 0
    faults: int = 0
    requests: int = 0
    acknowledged: int = 0
    uncertain: int = 0
    events: int = 0
    longest_without_write: float = 0.0  # seconds between two acknowledged writes

    def __str__(self) -> str:
        return (
            f"{self.rounds} rounds, {self.faults} faults, {self.requests} requests, {self.acknowledged} writes "
            f"acknowledged, {self.uncertain} uncertain, {self.events} watch events, "
            f"at most {self.longest_without_write:.1f} s between two writes"
        )


class EtcdTrial:
    def __init__(self, cluster: LocalCluster, seed: str) -> None:
        self._cluster = cluster
        self._seed = seed
        self._rng = random.Random(seed)
        self._journal = cluster.nodes[0].data / "journal"
        self._cache = ClientCache()
        self._history = History()
        self._faults: list[str] = []
        self._follower = JournalFollower()
        self._observations = Observations(WATCH_WINDOW)
        self._watching = [self._watcher(number) for number in range(WATCHERS)]
        self._watchers = [
            Watcher(one, self._any_node(f"{one.settings.name} connects"), random.Random(f"{seed} {number}"))  # type: ignore[arg-type]
            for number, one in enumerate(self._watching)
        ]
        self._threads = [threading.Thread(target=one.run) for one in self._watchers]

    def _any_node(self, name: str) -> AnyNode:
        return AnyNode(self._cluster.nodes, random.Random(f"{self._seed} {name}"))

    def _watcher(self, number: int) -> WatchingClient:
        rng = random.Random(f"{self._seed} watcher {number}")
        transports = list(TRANSPORTS)
        settings = WatchSettings(
            name=f"watcher {number}",
            interest=random_interest(rng),
            transport=transports[number % len(transports)],
            start=STARTS[number % len(STARTS)],
            bookmarks=rng.random() < 0.5,
            old_path=False,
            seconds=rng.choice((0, 0, 1)),
            window=0,
        )
        nodes = self._any_node(settings.name)
        return WatchingClient(settings, nodes, self._observations, self._cache, rng)  # type: ignore[arg-type]

    def __enter__(self) -> EtcdTrial:
        self._follower.follow(self._journal)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()
        self._cluster.kill()
        for thread in self._threads:
            thread.join(60)
        self._follower.stop()

    def _leave(self) -> None:
        for one in self._watchers:
            one.leaving.set()

    def run(self, seconds: float, faults: int, among: Sequence[str] = FAULTS) -> None:
        """One round: traffic for this long, with this many faults of these kinds."""
        run = ServerRun(len(self._history.runs), f"{faults} faults")
        self._history.runs.append(run)
        self._list_all(run)
        clients = [
            SteadyClient(
                number,
                NodesClient(self._any_node(f"{run.number} {number}")),
                run,
                self._cache,
                random.Random(f"{self._seed} {run.number} traffic {number}"),
                SignalSchedule((), lambda _: None),
            )
            for number in range(CLIENTS)
        ]
        threads = [threading.Thread(target=one.run) for one in clients]
        for thread in threads:
            thread.start()
        ended: list[Callable[[], None]] = []
        for _ in range(faults):
            time.sleep(seconds / (faults + 1))
            ended.append(self._fault(self._rng.choice(among)))
        time.sleep(seconds / (faults + 1))
        for end in ended:
            end()
        for one in clients:
            one.server_gone = True
        for thread in threads:
            thread.join(one_server.TIMEOUT * 2)
        for one in clients:
            if one.failure is not None:
                raise one.failure
        self._settle(run)

    def _fault(self, what: str) -> Callable[[], None]:
        """Inject a fault into some member or node; the returned function ends it."""
        rng = self._rng
        target = rng.choice(self._cluster.members.members if what.endswith("member") else self._cluster.nodes)
        self._faults.append(f"{what} {target.name}")
        if what.startswith("pause"):
            target.pause()
            return self._ends_later(target.resume)
        if what.startswith("cut"):
            network, links = self._cluster.network, self._links_of(target)
            self._faults[-1] += f" {sorted(links.items())}"
            return self._ends_later(partial(network.join, network.cut(links)))
        if isinstance(target, NodeProcess):
            target.set_clock(rng.uniform(-LARGEST_SKEW, LARGEST_SKEW))
        if what.startswith("kill"):
            target.resume()
            target.kill()
            if isinstance(target, NodeProcess) and rng.random() < 0.5:
                target.start()
        return lambda: None

    def _ends_later(self, end: Callable[[], None]) -> Callable[[], None]:
        timer = threading.Timer(self._rng.uniform(*FAULT_SECONDS), end)
        timer.start()

        def ended() -> None:
            timer.join(60)
            end()  # also if the timer has failed; twice does no harm

        return ended

    def _links_of(self, target: NodeProcess | EtcdMember) -> dict[Ends, Mode]:
        """All links of a member or node; sometimes only some, so that it is not fully cut off."""
        rng = self._rng
        members = [one.name for one in self._cluster.members.members if one is not target]
        nodes = [] if isinstance(target, NodeProcess) else [one.name for one in self._cluster.nodes]
        others = rng.choice((members + nodes, members, nodes or members[1:]))
        mode = rng.choice(MODES)
        return {(target.name, other): mode for other in others}  # a cut has no direction

    def _settle(self, run: ServerRun) -> None:
        """Restart what has ended, wait until all nodes have the same state, and read it."""
        members = self._cluster.members
        for member in members.members:
            if not member.running:
                members.restart(member)
        for member in members.members:
            member.wait_healthy()
        for node in self._cluster.nodes:
            if not node.running:
                node.start()
        for node in self._cluster.nodes:
            node.wait_ready()
        for node in self._cluster.nodes:
            _wait_for_writes(node)
        self._follower.read_to_the_end()  # a process opens a journal once
        events = self._same_events()
        run.contents = read_journal(self._journal)
        self._follower.follow(self._journal)
        first, *others = events
        for node, found in zip(self._cluster.nodes[1:], others, strict=True):
            if found != first:
                raise GuaranteeBroken("Exact", f"{node.name} has other events than node-1")

    def _same_events(self) -> list[list[object]]:
        """The events of every node, when all have the same head and nothing is written any more."""
        deadline = time.monotonic() + SETTLE_SECONDS
        before: list[int] = []
        while True:
            heads = []
            for node in self._cluster.nodes:
                client = Client(node.port)
                try:  # a consistent read: the node has what all others have acknowledged
                    client.call("GET", "/api/v1/namespaces?limit=1")
                except (ConnectionBroken, ServerGone):
                    pass
                finally:
                    client.close()
                heads.append(_events(node)[-1:])
            numbers = [found[0][0] if found else 0 for found in heads]  # type: ignore[index]
            if len(set(numbers)) == 1 and numbers == before:
                return [_events(node) for node in self._cluster.nodes]
            assert time.monotonic() < deadline, f"the nodes have different heads: {numbers}"
            before = numbers
            time.sleep(0.2)

    def _list_all(self, run: ServerRun) -> None:
        client = NodesClient(self._any_node(f"list {run.number}"))
        for plural in KINDS:
            paged = PagedList(plural, None, "", 0)
            run.lists.append(paged)
            fetch_page(client, paged)
            keyed = ((key_of(plural, item), item) for item in paged.pages[0].items)
            run.found |= {key: item for key, item in keyed if key in TEST_KEYS}
        run.found_at = min(paged.pages[0].version for paged in run.lists)
        client.close()

    def finish(self) -> Tally:
        """Let all watchers catch up, then validate."""
        last = ServerRun(len(self._history.runs), "at the end")
        self._history.runs.append(last)
        self._list_all(last)
        self._follower.read_to_the_end()
        last.contents = read_journal(self._journal)
        for watching in self._watching:
            watching.read_only.set()
        self._await_watchers()
        self._leave()
        for node in self._cluster.nodes:
            node.stop()
        for thread in self._threads:
            thread.join(60)
        for watcher in self._watchers:
            if watcher.failure is not None:
                raise watcher.failure
        validate(self._history)
        validate_watches(self._observations, self._follower)
        return self._tally()

    def _await_watchers(self) -> None:
        deadline = time.monotonic() + SETTLE_SECONDS
        for one in self._watching:
            expected = self._follower.expected(one.settings.interest)
            while not one.has_all(expected) and not any(watcher.failure for watcher in self._watchers):
                if time.monotonic() > deadline:
                    missing = f"{one.settings} did not receive everything up to {expected.last}"
                    raise WatchGuaranteeBroken("Reliable", missing)
                time.sleep(0.02)

    def _tally(self) -> Tally:
        operations = list(self._history.operations)
        pauses = [0.0]
        for run in self._history.runs:
            ends = sorted(one.ended for one in run.operations if one.made is not None)
            pauses += [later - earlier for earlier, later in pairwise(ends)]
        return Tally(
            len(self._history.runs) - 1,
            len(self._faults),
            len(operations) + sum(len(paged.pages) for paged in self._history.lists),
            len(self._history.acknowledged),
            sum(not operation.known for operation in operations),
            self._observations.events,
            max(pauses),
        )


def _wait_for_writes(node: NodeProcess) -> None:
    """Wait until a node writes nothing more: clients disconnect without waiting, and their writes take effect later.

    A write waits for the newest version first, and is counted afterwards; a read that waited for it came after it.
    """
    client, deadline = Client(node.port), time.monotonic() + SETTLE_SECONDS
    try:
        while True:
            status, _ = client.call("GET", "/api/v1/namespaces?limit=1")
            if status == 200 and not any(_unfinished(node)):
                return
            assert time.monotonic() < deadline, f"{node.name} still writes"
            time.sleep(0.1)
    finally:
        client.close()


def _unfinished(node: NodeProcess) -> Iterator[float]:
    """How many write requests ran within the last seconds, and how many events wait."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{node.port}/metrics", headers={"Authorization": f"Bearer {one_server.TOKEN}"}
    )
    with urllib.request.urlopen(request, timeout=one_server.TIMEOUT) as response:
        lines = response.read().decode().splitlines()
    found = [line.rpartition(" ") for line in lines if line.startswith(_WRITES)]
    assert len(found) == len(_WRITES), "the metrics of writes have other names"
    return (float(number) for _, _, number in found)


def _events(node: NodeProcess) -> list[object]:
    """All events of a node's journal, with the names of their types: type numbers may differ between nodes."""
    journal = Journal.open(node.data / "journal", readonly=True)
    try:
        names = {number: name for name, number in journal.types().items()}
        with journal.read() as view:
            return [
                (event.offset, names[event.type_id], event._replace(type_id=0))
                for event in view.all_events(0)
            ]
    finally:
        journal.close()


@contextmanager
def etcd_trial(seed: str) -> Iterator[EtcdTrial]:
    with local_cluster(flags=("--journal-retention", "0"), token=one_server.TOKEN, faults=True) as cluster:
        try:
            with EtcdTrial(cluster, seed) as trial:
                yield trial
        except BaseException as error:
            logs = "\n".join(f"{node.name}:\n{node.log.read_text()[-1500:]}" for node in cluster.nodes)
            error.add_note(f"seed: {seed!r}, faults: {trial._faults}\n{logs}")
            raise
