"""The options of a run: every size and limit of the harness, frozen and stored with the results."""

from __future__ import annotations

import argparse
import dataclasses
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
SAVED = ROOT / "docs" / "benchmarks"


@dataclass(frozen=True, slots=True)
class Sizes:
    seconds: float = 2.0  # of one round
    rounds: int = 3  # the median counts
    warmup: float = 1.0
    objects: int = 2_000
    large: int = 100_000
    deletes: int = 6_000
    behind: int = 1_000  # writes between collecting continue tokens and using them
    events: int = 1_000_000
    starts: int = 5
    roles: int = 500  # and as many bindings, of other users
    definitions: int = 1_000  # of custom kinds
    recorded: int = 10_000  # objects of the server that is recorded
    few: int = 100  # watchers of the small fan-outs
    watchers: int = 1_000  # of the usual fan-outs
    many: int = 5_000  # watchers that connect at once
    crowd: int = 10_000  # watchers of the largest fan-outs
    deliveries: int = 30_000  # of one round, one event at a time
    burst: int = 1_000  # events written at once
    missed: int = 100_000  # events that a watcher has to catch up with


QUICK = Sizes(
    seconds=0.2,
    rounds=1,
    warmup=0.05,
    objects=200,
    large=1_000,
    deletes=100,
    behind=50,
    events=2_000,
    starts=1,
    roles=10,
    definitions=20,
    recorded=50,
    few=5,
    watchers=20,
    many=30,
    crowd=40,
    deliveries=100,
    burst=50,
    missed=300,
)


@dataclass(frozen=True, slots=True)
class Options:
    sizes: Sizes
    only: frozenset[str]
    quick: bool
    url: str
    token: str
    pids: tuple[int, ...]
    name: str
    both: bool
    dialect: str
    rewound: str
    before: str
    scratch: Path
    out: Path
    save: str
    list: bool


def parse(arguments: list[str] | None = None) -> Options:
    given = _parser().parse_args(arguments)
    sizes = QUICK if given.quick else Sizes()
    chosen = {field.name: getattr(given, field.name) for field in dataclasses.fields(Sizes)}
    sizes = dataclasses.replace(sizes, **{name: value for name, value in chosen.items() if value is not None})
    return Options(
        sizes=sizes,
        only=frozenset(filter(None, given.only.split(","))),
        quick=given.quick,
        url=given.url,
        token=given.token,
        pids=tuple(int(pid) for pid in given.pids.split(",") if pid),
        name=given.name,
        both=given.both,
        dialect=given.dialect,
        rewound=given.rewound,
        before=given.before,
        scratch=Path(given.scratch) if given.scratch else RESULTS / "scratch",
        out=SAVED if given.save else Path(given.out),
        save=given.save,
        list=given.list,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.run",
        description="Measures a server of this API: rate, latency and server CPU per operation.",
    )
    what = parser.add_argument_group("what to measure")
    what.add_argument("--only", default="", metavar="A,B", help="these workloads only (see --list)")
    what.add_argument("--list", action="store_true", help="list the workloads and exit")
    what.add_argument(
        "--quick", action="store_true", help="small counts: shows that everything runs, measures little"
    )
    _add_server(parser.add_argument_group("the server (without --url the harness starts one)"))
    _add_sizes(parser.add_argument_group("sizes"))
    output = parser.add_argument_group("output")
    output.add_argument(
        "--save", default="", metavar="NAME", help="write the results to docs/benchmarks/NAME.*"
    )
    output.add_argument("--out", default=str(RESULTS), help="folder for results without --save")
    output.add_argument("--scratch", default="", help="folder for data; fsync waits for its disk")
    return parser


def _add_server(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--url", default="", help="a server that already runs on this machine")
    group.add_argument("--token", default="", help="bearer token for --url")
    group.add_argument("--pids", default="", metavar="1,2", help="its process ids (children are counted too)")
    group.add_argument("--name", default="", help="name of that server in the results")
    group.add_argument(
        "--both", action="store_true", help="measure the one at --url and one of ours in one run"
    )
    group.add_argument("--dialect", default="cluster", choices=("cluster", "kubernetes"))
    group.add_argument("--rewound", default="", metavar="COMMAND", help="the command that starts our server")
    group.add_argument(
        "--before",
        default="",
        metavar="COMMIT",
        help="also measure our server of this commit, and mark what became slower; release: of the last version",
    )


def _add_sizes(group: argparse._ArgumentGroup) -> None:
    for name, kind, text in (
        ("seconds", float, "length of one round"),
        ("rounds", int, "rounds of each workload; the median counts"),
        ("warmup", float, "seconds before the first round"),
        ("objects", int, "objects in the collection that is listed"),
        ("large", int, "objects in the collection that is paged"),
        ("deletes", int, "objects to delete"),
        ("behind", int, "writes between collecting continue tokens and using them"),
        ("events", int, "events in the large journal"),
        ("starts", int, "starts of the server"),
        ("roles", int, "roles and bindings of other users"),
        ("definitions", int, "definitions of custom kinds"),
        ("recorded", int, "objects of the server that is recorded"),
        ("few", int, "watchers in a small group"),
        ("watchers", int, "watchers in a usual group"),
        ("many", int, "watchers that connect at once or stay idle"),
        ("crowd", int, "watchers in a large group"),
        ("deliveries", int, "deliveries of one round, one event at a time"),
        ("burst", int, "events written at once"),
        ("missed", int, "events that a watcher catches up with"),
    ):
        group.add_argument(f"--{name}", type=kind, default=None, help=text)
