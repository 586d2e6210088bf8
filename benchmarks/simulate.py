"""A discrete-event model of many kubelets and controllers on API machines whose journal etcd orders.

    python -m benchmarks.simulate --nodes 100000                    # how many machines, and what they are like then
    python -m benchmarks.simulate --nodes 20000 --machines 4 --fail 5   # these, and a failure after five seconds

Costs are CPU per operation, as `python -m benchmarks.scale` measured them on one machine (docs/benchmarks/scale.json).
The model adds what a single run cannot show: queues at the cores of each machine, the order that etcd gives to all
writes, the copy of every event on every machine, and the clients of a failed machine that come back to the others.

    a read       network, the newest version (`fresh`), the worker of its client (`get`), network back
    fresh        network, etcd's read, network back, until the machine has stored that version; one is under way for
                 each machine, and all requests that come meanwhile wait for the next one
    a write      network, fresh, the worker (`write`), network, etcd's queue and commit; then network, the follower of
                 its machine has stored its event, network back
    its event    network to every machine; its follower stores it (`commit` for all that wait, `apply` for each);
                 the workers send it to their watchers

Many clients of equal and independent periods are together a Poisson process, so arrivals are one per kind of request. A
connection stays with one worker, as the kernel does it: each worker has its own queue. Rejected: a queueing network in
closed form (sweeps of watchers come in batches, and a failure is no steady state), and a library of simulation (a heap
and two classes are all that it takes). `tests/benchmarks/test_simulate.py` compares stations with M/M/c and M/D/1.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import random
import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.loads.latency import percentile
from benchmarks.options import SAVED

Action = Callable[[], None]
Service = float | Callable[[], float]  # seconds, or what returns them when the service begins
SWEEP = 256  # deliveries between two checkpoints of the event loop, as in gateway/watch/broadcast.py
SLOW_COMMIT_US = 4000  # commits that take longer run in a thread, as in actors/store/committer.py
MAX_MACHINES = 1000


class Clock:
    """The heap of what happens next."""

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.random = random.Random(seed)
        self._heap: list[tuple[float, int, Action]] = []
        self._number = 0

    def after(self, seconds: float, action: Action) -> None:
        self._number += 1
        heapq.heappush(self._heap, (self.now + seconds, self._number, action))

    def run(self, until: float) -> None:
        heap = self._heap
        while heap and heap[0][0] <= until:
            self.now, _, action = heapq.heappop(heap)
            action()
        self.now = until

    def arrivals(self, rate: float, action: Action) -> None:
        """Call `action` for each arrival of a Poisson process."""
        if rate <= 0:
            return

        def arrive() -> None:
            action()
            self.after(self.random.expovariate(rate), arrive)

        self.after(self.random.expovariate(rate), arrive)


class Station:
    """Servers with one queue, first come first served: the cores of a process, or etcd."""

    def __init__(self, clock: Clock, servers: int = 1) -> None:
        self._clock, self._servers = clock, servers
        self._serving = 0
        self._queue: deque[tuple[Service, Action]] = deque()
        self.busy = 0.0  # seconds of service
        self.longest = 0  # queue

    def submit(self, seconds: Service, done: Action) -> None:
        if self._serving < self._servers:
            self._serving += 1
            self._serve(seconds, done)
            return
        self._queue.append((seconds, done))
        self.longest = max(self.longest, len(self._queue))

    def _serve(self, service: Service, done: Action) -> None:
        seconds = service() if callable(service) else service
        self.busy += seconds
        self._clock.after(seconds, lambda: self._served(done))

    def _served(self, done: Action) -> None:
        if self._queue:
            self._serve(*self._queue.popleft())
        else:
            self._serving -= 1
        done()

    def utilization(self, seconds: float) -> float:
        return self.busy / seconds / self._servers


@dataclass(frozen=True, slots=True)
class Costs:
    """CPU of each operation in microseconds, and the memory of a watcher."""

    get_us: float
    write_us: float  # everything of a write but its commit
    apply_us: float  # of an event that etcd has committed, on each machine
    deliver_us: float  # to one watcher
    connect_us: float  # TLS handshake of a client
    watch_us: float  # start of a watch
    commit_us: (
        float  # that a commit to the disk holds a server whose journal etcd does not order, whatever its size
    )
    relist_us: float  # a list of one node's pods, which a kubelet sends that cannot resume
    watcher_kb: float
    base_mb: float
    object_bytes: float  # of memory that is not mapped, for each object

    @classmethod
    def read(cls, file: Path, objects: int) -> Costs:
        """Of a file of `python -m benchmarks.scale`; a relist grows with the objects, everything else hardly does."""
        found = json.loads(file.read_text())
        by_size = found["objects"]["results"]
        largest = by_size[max(by_size, key=int)]
        watched = found["watchers"]["results"].values()
        shared, own = (_most(watched, shape) for shape in ("tls", "own"))
        pods = largest["collections"]["pods"]
        return cls(
            get_us=largest["get_us"],
            write_us=largest["write_us"],
            apply_us=largest["append_us"],
            deliver_us=shared["delivery_us"],
            connect_us=shared["connect_us"],
            watch_us=largest["watch_start_us"],
            commit_us=largest["commit_us"],
            relist_us=largest["node_pods_us"] * max(1.0, objects / pods),
            watcher_kb=own["kb"],
            base_mb=min(each["rest_anonymous_mb"] for each in by_size.values()),
            object_bytes=largest["anonymous_bytes_per_object"],
        )


def _most(watched: Iterable[dict[str, Any]], shape: str) -> dict[str, Any]:
    """The measurement with the most watchers of this shape, of a server of one process."""
    found = [each for each in watched if each["shape"] == shape and each["workers"] == 1]
    if not found:
        raise KeyError(f"no watchers of the shape {shape}")
    return max(found, key=lambda each: int(each["watchers"]))


@dataclass(frozen=True, slots=True)
class Load:
    """What the nodes and controllers of a cluster do."""

    nodes: int = 100_000
    lease_interval: float = 10.0  # seconds between two renewals of a node's lease
    status_interval: float = (
        300.0  # and between two updates of its status, as v1.25 sends one that has not changed
    )
    pods_per_node: int = 30
    pod_changes: float = 0.01  # per node and second: creation, binding, status, deletion
    reads: float = 0.1  # gets per node and second
    watches: int = 6  # per node: its pods, itself, services, endpoint slices, classes, configuration
    broadcasts: float = 0.5  # changes per second that every node watches: services and endpoint slices
    controllers: int = 10  # clients that watch all pods and nodes

    @property
    def writes(self) -> float:
        """Per second, of the whole cluster."""
        periodic = 1 / self.lease_interval + 1 / self.status_interval
        return self.nodes * (periodic + self.pod_changes) + self.broadcasts

    @property
    def objects(self) -> int:
        return self.nodes * (2 + self.pods_per_node)


@dataclass(frozen=True, slots=True)
class Layout:
    machines: int
    workers: int = 2  # cores that serve requests; one more follows etcd, unless there is only one
    rtt_ms: float = 1.0
    commit_ms: float = 5.0  # of etcd, without its queue
    read_ms: float = 0.5  # of etcd: that a majority confirms which version is the newest
    etcd_limit: float = 20_000.0  # writes per second that it commits
    journal: str = "etcd"  # or "disk": one machine with one worker orders and stores its own journal


@dataclass(slots=True)
class Machine:
    workers: list[Station]
    follower: Station
    pending: list[Action] = field(default_factory=list)  # what its next commit includes
    up: bool = True
    stored: int = 0  # events
    asks: bool = False  # etcd for the newest version
    asking: list[Action] = field(default_factory=list)  # requests that wait for the next question
    behind: list[tuple[int, Action]] = field(default_factory=list)  # until so many events are stored


@dataclass(slots=True)
class Latencies:
    writes: list[float] = field(default_factory=list)
    reads: list[float] = field(default_factory=list)
    deliveries: list[float] = field(default_factory=list)  # from the write to a watcher of another client
    returns: list[float] = field(default_factory=list)  # from a failure until a client watches again


class Cluster:
    """One run. Clients are spread evenly over machines and workers."""

    def __init__(self, load: Load, layout: Layout, costs: Costs, seed: int = 1) -> None:
        self._load, self._layout, self._costs = load, layout, costs
        self.clock = Clock(seed)
        self.latencies = Latencies()
        self.machines = [self._machine() for _ in range(layout.machines)]
        self.etcd = Station(self.clock)
        self._serving = list(self.machines)
        self._half_rtt = layout.rtt_ms / 2e3
        self._disk = Station(self.clock) if costs.commit_us > SLOW_COMMIT_US else None
        self.commits = 0
        self._ordered = 0  # events that etcd has committed
        self.lost = 0  # requests to a machine that has just failed

    def _machine(self) -> Machine:
        workers = [Station(self.clock) for _ in range(self._layout.workers)]
        return Machine(workers, Station(self.clock) if len(workers) > 1 else workers[0])

    def run(self, seconds: float, fail_at: float = 0.0, spread: float = 10.0, relists: float = 0.0) -> Report:
        load, clock = self._load, self.clock
        clock.arrivals(load.nodes / load.lease_interval, lambda: self._write(self._to_controllers(1)))
        clock.arrivals(
            load.nodes / load.status_interval, lambda: self._write(self._to_controllers(load.controllers))
        )
        clock.arrivals(load.nodes * load.pod_changes, self._write_pod)
        clock.arrivals(load.broadcasts, lambda: self._write(self._to_nodes()))
        clock.arrivals(load.nodes * load.reads, self._read)
        if fail_at:
            clock.after(fail_at, lambda: self._fail(spread, relists))
        clock.run(seconds)
        return Report.of(self, seconds)

    # Requests.

    def _worker(self) -> tuple[Machine, Station]:
        """The worker of a random client."""
        choose = self.clock.random
        machine = self._serving[choose.randrange(len(self._serving))]
        return machine, machine.workers[choose.randrange(len(machine.workers))]

    def _read(self) -> None:
        begun, (machine, worker) = self.clock.now, self._worker()

        def served() -> None:
            self.latencies.reads.append(self.clock.now + self._half_rtt - begun)

        def fresh() -> None:
            worker.submit(self._costs.get_us / 1e6, served)

        self.clock.after(self._half_rtt, lambda: self._make_fresh(machine, fresh))

    def _make_fresh(self, machine: Machine, then: Action) -> None:
        """Continue when the machine has everything that was written before."""
        if self._layout.journal == "disk":
            then()
            return
        machine.asking.append(then)
        if not machine.asks:
            self._ask(machine)

    def _ask(self, machine: Machine) -> None:
        asked, machine.asking = machine.asking, []
        machine.asks = bool(asked)
        if not asked:
            return
        newest = 0

        def read() -> None:
            nonlocal newest
            newest = self._ordered
            self.clock.after(self._half_rtt, answered)

        def answered() -> None:
            machine.behind += [(newest, each) for each in asked]
            self._release(machine)
            self._ask(machine)

        self.clock.after(self._half_rtt + self._layout.read_ms / 1e3, read)

    def _release(self, machine: Machine) -> None:
        ready = [each for version, each in machine.behind if version <= machine.stored]
        machine.behind = [one for one in machine.behind if one[0] > machine.stored]
        for each in ready:
            each()

    def _write_pod(self) -> None:
        """A kubelet and all controllers watch it."""
        machine, worker = self._worker()
        groups = self._to_controllers(self._load.controllers)
        position = self.machines.index(machine), machine.workers.index(worker)
        groups[position] = groups.get(position, 0) + 1
        self._write(groups)

    def _write(self, groups: dict[tuple[int, int], int]) -> None:
        begun, (machine, worker) = self.clock.now, self._worker()
        layout, clock = self._layout, self.clock

        def decided() -> None:
            if layout.journal == "disk":
                self._commit(self._disk or worker, machine, stored)
                return
            clock.after(self._half_rtt, lambda: self.etcd.submit(1 / layout.etcd_limit, ordered))

        def ordered() -> None:
            # Most commits take about the same time; some wait for a slow disk.
            commit = layout.commit_ms / 1e3
            clock.after(0.8 * commit + clock.random.expovariate(5 / commit), committed)

        def committed() -> None:
            self._ordered += 1
            clock.after(self._half_rtt, lambda: self._follow(begun, groups, machine, responded))

        def stored() -> None:
            responded()
            self._sweep(begun, _at(self.machines[0], groups, 0))

        def responded() -> None:
            self.latencies.writes.append(clock.now + self._half_rtt - begun)

        def fresh() -> None:
            worker.submit(self._costs.write_us / 1e6, decided)

        clock.after(self._half_rtt, lambda: self._make_fresh(machine, fresh))

    def _commit(self, station: Station, machine: Machine, stored: Action) -> None:
        """Commit to the machine's disk together with everything that waits when the commit begins."""
        pending = machine.pending
        pending.append(stored)
        if len(pending) > 1:
            return  # the waiting commit includes this one
        batch: list[Action] = []

        def begin() -> float:
            batch.extend(pending)
            pending.clear()
            self.commits += 1
            return (self._costs.commit_us + len(batch) * self._costs.apply_us) / 1e6

        def end() -> None:
            machine.stored += len(batch)
            for each in batch:
                each()
            self._release(machine)

        station.submit(begin, end)

    # Events.

    def _to_controllers(self, count: int) -> dict[tuple[int, int], int]:
        """Watchers by machine and worker; controllers are on as many machines as there are."""
        groups: dict[tuple[int, int], int] = {}
        for number in range(count):
            position = number % len(self.machines), number % self._layout.workers
            groups[position] = groups.get(position, 0) + 1
        return groups

    def _to_nodes(self) -> dict[tuple[int, int], int]:
        layout = self._layout
        each = math.ceil(self._load.nodes / len(self._serving) / layout.workers)
        return {(m, w): each for m in range(layout.machines) for w in range(layout.workers)}

    def _follow(
        self, begun: float, groups: dict[tuple[int, int], int], writer: Machine, responded: Action
    ) -> None:
        """Every machine stores the event; those with watchers send it to them, and the writer responds."""
        self.lost += not writer.up
        for number, machine in enumerate(self.machines):
            if machine.up:
                own = _at(machine, groups, number)
                respond = responded if machine is writer else None
                self._commit(machine.follower, machine, partial(self._stored, begun, own, respond))

    def _stored(self, begun: float, watched: Sequence[tuple[Station, int]], respond: Action | None) -> None:
        if respond is not None:
            respond()
        self._sweep(begun, watched)

    def _sweep(self, begun: float, watched: Sequence[tuple[Station, int]]) -> None:
        for worker, count in watched:
            self._send(begun, worker, count)

    def _send(self, begun: float, worker: Station, left: int) -> None:
        """Send to some watchers; requests that wait are served before the next ones."""
        some = min(left, SWEEP)

        def sent() -> None:
            self.latencies.deliveries.append(self.clock.now + self._half_rtt - begun)
            if left > some:
                self._send(begun, worker, left - some)

        worker.submit(some * self._costs.deliver_us / 1e6, sent)

    # Failures.

    def _fail(self, spread: float, relists: float) -> None:
        """The first machine fails: its clients reconnect to the others within `spread` seconds."""
        failed, self._serving = self._serving[0], self._serving[1:]
        failed.up = False
        if not self._serving:
            return
        choose = self.clock.random
        for _ in range(self._load.nodes // len(self.machines)):
            again = choose.random() < relists
            self.clock.after(choose.uniform(0, spread), partial(self._come_back, again))

    def _come_back(self, again: bool) -> None:
        """A client connects and watches; one that cannot resume lists first."""
        begun, costs = self.clock.now, self._costs
        seconds = (costs.connect_us + self._load.watches * costs.watch_us + again * costs.relist_us) / 1e6
        _, worker = self._worker()
        worker.submit(seconds, lambda: self.latencies.returns.append(self.clock.now - begun))


def _at(machine: Machine, groups: dict[tuple[int, int], int], number: int) -> list[tuple[Station, int]]:
    """Watchers of this machine by worker."""
    return [(machine.workers[w], count) for (m, w), count in groups.items() if m == number]


@dataclass(frozen=True, slots=True)
class Report:
    machines: int
    seconds: float
    workers: tuple[float, float]  # utilization: the mean and the busiest
    followers: float  # the busiest; near 1 it commits all the time, and larger batches
    etcd: float
    latency_ms: dict[str, dict[str, float]]
    memory_mb: float  # of one machine
    watchers: int  # of one machine
    lost: int

    @classmethod
    def of(cls, run: Cluster, seconds: float) -> Report:
        load, costs = run._load, run._costs
        stations = [worker for machine in run.machines for worker in machine.workers if machine.up]
        used = [station.utilization(seconds) for station in stations]
        up = len(run._serving)
        watchers = math.ceil(load.nodes * load.watches / up)
        memory = (
            costs.base_mb * (run._layout.workers + 1)
            + watchers * costs.watcher_kb / 1024
            + load.objects * costs.object_bytes / (1 << 20)
        )
        return cls(
            machines=len(run.machines),
            seconds=seconds,
            workers=(sum(used) / len(used), max(used)),
            followers=max(each.follower.utilization(seconds) for each in run.machines if each.up),
            etcd=run.etcd.utilization(seconds),
            latency_ms={name: summary(values) for name, values in asdict(run.latencies).items() if values},
            memory_mb=round(memory),
            watchers=watchers,
            lost=run.lost,
        )

    def problem(self, bar_ms: float, bar_busy: float) -> str:
        """The requirements that are not met; empty if all are."""
        if self.etcd > bar_busy:
            return f"etcd is busy {self.etcd:.0%} of the time"
        if self.workers[1] > bar_busy:
            return f"a worker is busy {self.workers[1]:.0%} of the time"
        for name in ("writes", "reads", "deliveries"):
            if (found := self.latency_ms.get(name, {}).get("p99", 0.0)) > bar_ms:
                return f"p99 of {name} is {found:.0f} ms"
        return ""

    def lines(self) -> list[str]:
        busy = f"workers {self.workers[0]:.0%} (busiest {self.workers[1]:.0%})"
        found = [
            f"{self.machines} machines: {busy}, followers {self.followers:.0%}, etcd {self.etcd:.0%}; "
            f"{self.watchers:,} watchers and {self.memory_mb:,.0f} MB each"
        ]
        for name, values in self.latency_ms.items():
            found.append(
                f"  {name:10} p50 {values['p50']:9.2f} ms   p99 {values['p99']:9.2f} ms   {values['count']:,.0f}"
            )
        return found


def summary(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    found = {f"p{percent}": round(percentile(ordered, percent) * 1e3, 3) for percent in (50, 99)}
    return {**found, "count": len(ordered)}


class NotEnough(Exception):
    """No number of machines suffices; the text says what limits the cluster."""


def machines_for(load: Load, layout: Layout, costs: Costs, bar_busy: float) -> int:
    """The least number of machines whose cores suffice, by the sums of all costs alone."""
    if (etcd := load.writes / layout.etcd_limit) > bar_busy:
        raise NotEnough(
            f"etcd would be busy {etcd:.0%} of the time: {load.writes:,.0f} writes a second, "
            f"and it commits {layout.etcd_limit:,.0f}"
        )
    apply = load.writes * costs.apply_us / 1e6
    if apply > bar_busy:
        raise NotEnough(
            f"every machine would be busy {apply:.0%} of one core with the events of all machines"
        )
    if layout.workers == 1 and load.writes * costs.commit_us / 1e6 > bar_busy:
        raise NotEnough(
            "a single worker would commit the events of all machines all the time; give it --workers 2"
        )
    status = load.nodes / load.status_interval * load.controllers
    pods = load.nodes * load.pod_changes * (load.controllers + 1)
    deliveries = load.nodes / load.lease_interval + status + pods + load.nodes * load.broadcasts
    spread = (
        load.writes * costs.write_us + load.nodes * load.reads * costs.get_us + deliveries * costs.deliver_us
    ) / 1e6
    own = apply if layout.workers == 1 else 0.0  # a single worker also follows
    return math.ceil(spread / (layout.workers * bar_busy - own))


def search(
    load: Load,
    layout: Layout,
    costs: Costs,
    *,
    seconds: float,
    bar_ms: float = 1000.0,
    bar_busy: float = 0.8,
    spare: int = 1,
    seed: int = 1,
) -> tuple[int, Report]:
    """The machines that the load needs, with `spare` ones more that may fail, and the run without the spare ones."""
    machines = machines_for(load, layout, costs, bar_busy)
    while machines <= MAX_MACHINES:
        report = Cluster(load, replace(layout, machines=machines), costs, seed).run(seconds)
        problem = report.problem(bar_ms, bar_busy)
        if not problem:
            return machines + spare, report
        machines += 1
    raise NotEnough(f"{MAX_MACHINES} machines do not suffice: {problem}")


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.simulate", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "--costs", type=Path, default=SAVED / "scale.json", help="figures of python -m benchmarks.scale"
    )
    parser.add_argument("--machines", type=int, default=0, help="0: as many as the load needs (default)")
    parser.add_argument("--seconds", type=float, default=5.0, help="simulated (default 5)")
    parser.add_argument(
        "--fail", type=float, default=0.0, metavar="AT", help="second at which a machine fails"
    )
    parser.add_argument(
        "--spread", type=float, default=10.0, help="seconds in which its clients come back (default 10)"
    )
    parser.add_argument(
        "--relists", type=float, default=0.0, help="share of them that lists again (default 0: all resume)"
    )
    parser.add_argument("--bar-ms", type=float, default=1000.0, help="highest p99 (default 1000)")
    parser.add_argument("--bar-busy", type=float, default=0.8, help="highest share of a core (default 0.8)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    for kind in (Load, Layout):
        for name, value in _defaults(kind).items():
            parser.add_argument(
                f"--{name.replace('_', '-')}", type=type(value), default=value, help=f"(default {value})"
            )
    return parser.parse_args(arguments)


def _defaults(kind: type[Load] | type[Layout]) -> dict[str, Any]:
    found = asdict(kind() if kind is Load else Layout(0))
    return {name: value for name, value in found.items() if name != "machines"}


def main(arguments: list[str] | None = None) -> int:
    given = parse(arguments)
    load = Load(**{name: getattr(given, name) for name in _defaults(Load)})
    layout = Layout(given.machines, **{name: getattr(given, name) for name in _defaults(Layout)})
    try:
        costs = Costs.read(given.costs, load.nodes * load.pods_per_node)
    except (OSError, KeyError, ValueError) as problem:
        return _fail(f"--costs {given.costs}: {problem!r}; write it with python -m benchmarks.scale")
    bars = {"bar_ms": given.bar_ms, "bar_busy": given.bar_busy}
    if layout.journal not in ("etcd", "disk"):
        return _fail(f"--journal {layout.journal}: must be etcd or disk")
    if layout.journal == "disk" and (given.machines, layout.workers) != (1, 1):
        return _fail("--journal disk: a journal on disk has one writer; add --machines 1 --workers 1")
    if given.machines:
        run = Cluster(load, layout, costs, given.seed)
        report = run.run(given.seconds, given.fail, given.spread, given.relists)
        needed = 0
    else:
        try:
            needed, report = search(load, layout, costs, seconds=given.seconds, seed=given.seed, **bars)
        except NotEnough as limit:
            return _fail(str(limit))
    if given.json:
        print(json.dumps({"needed": needed, "costs": asdict(costs), **asdict(report)}, indent=1))
        return 0
    print(
        f"{load.nodes:,} nodes: {load.writes:,.0f} writes and {load.nodes * load.reads:,.0f} reads a second"
    )
    print("\n".join(report.lines()))
    if needed:
        print(f"{needed} machines are needed, of which one may fail")
    elif problem := report.problem(**bars):
        print(f"not enough: {problem}")
    return 0


def _fail(problem: str) -> int:
    print(f"simulate: {problem}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
