"""`rewound chaos FILE`: make nodes, zones, images, clocks and requests fail, by schedule and seed.

    rewound chaos bad-day.yaml
    rewound chaos bad-day.yaml --seed 8
    rewound chaos bad-day.yaml --detach

Applies the Chaos objects of the file, and its Stages and other objects, prints faults as they begin and end, and ends
with the last one. At the end, and after Ctrl-C, it deletes the Chaos objects, which ends their faults.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rewound.cli.access.flags import Options, Parser, add_connection, open_session
from rewound.cli.command import run_command
from rewound.client.errors import ClientError, Failure, StatusError, UsageError

if TYPE_CHECKING:
    from rewound.client.session import Session

_PATH: Final = "/apis/sim.rewound/v1alpha1/chaos"
_KIND: Final = ("sim.rewound/v1alpha1", "Chaos")
_POLL_SECONDS: Final = 0.5
_MOST_NAMED: Final = 5  # nodes in a line


def chaos(arguments: Sequence[str]) -> int:
    parser = Parser("rewound chaos", __doc__)
    parser.add_argument("file", type=Path, metavar="FILE", help="with Chaos objects, as YAML or JSON")
    parser.add_argument("--seed", type=int, metavar="NUMBER", help="instead of that of the file")
    parser.add_argument("--detach", action="store_true", help="apply the file, and end at once")
    add_connection(parser)
    failures = ((UsageError, 2), ((ClientError, Failure, OSError), 1))
    return run_command(lambda: _run(parser.parse_args(arguments)), failures)


def _run(options: Options) -> int:
    from rewound.cli.local.load import Loading
    from rewound.recording.manifests import Manifests

    items = [item.document for item in Manifests().read([options.file])]
    plans = [one for one in items if (one.get("apiVersion"), one.get("kind")) == _KIND]
    if not plans:
        raise UsageError(f"{options.file}: has no Chaos of {_KIND[0]}; see docs/chaos.md")
    names = [_name_of(one, options.file) for one in plans]
    for one in plans if options.seed is not None else ():
        one["spec"]["seed"] = options.seed
    with open_session(options) as session:
        for name in names:  # begin again
            _delete(session, name)
        loading = Loading(session)
        for document in sorted(items, key=lambda one: one in plans):
            loading.apply(document)
        if options.detach:
            print("".join(f"chaos/{name} applied\n" for name in names), end="")
            return 0
        try:
            return _follow(session, names)
        finally:
            for name in names:
                _delete(session, name)


def _name_of(plan: dict[str, Any], file: Path) -> str:
    """Raises Failure for an object that cannot be applied, or followed."""
    from rewound.actors.chaos.plan import ChaosError, parse_plan
    from rewound.testing.faults.parsing import FaultsError, faults_of

    metadata, spec = plan.get("metadata"), plan.get("spec")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name:
        raise Failure(f"{file}: a Chaos has no metadata.name; give it one")
    try:
        for fault in parse_plan(spec if isinstance(spec, dict) else {}).faults:
            if fault.target is None:
                faults_of(fault.document)
    except ChaosError as error:
        raise Failure(f"chaos/{name}: {error}") from error
    except FaultsError as error:
        raise Failure(f"chaos/{name}: {fault.name}: {fault.kind}: {error}") from error
    return name


def _follow(session: Session, names: Sequence[str]) -> int:
    """Print what happens, until no fault is active and none will begin."""
    shown: dict[tuple[str, str], dict[str, Any]] = {}
    while True:
        waiting = False
        for name in names:
            found = session.get(f"{_PATH}/{name}")
            status = found.get("status") or {}
            if status.get("problem"):
                raise Failure(f"chaos/{name}: {status['problem']}")
            waiting |= _print_changes(name, status.get("faults") or (), shown) or not _is_over(found)
        if not waiting:
            return 0
        time.sleep(_POLL_SECONDS)


def _print_changes(
    name: str, faults: Sequence[dict[str, Any]], shown: dict[tuple[str, str], dict[str, Any]]
) -> bool:
    """Print the faults that have begun or ended; returns whether one is active that ends."""
    waiting = False
    for fault in faults:
        active, place = fault.get("active"), (name, fault["name"])
        before = shown.get(place)
        if before is not None and (active is None or active["number"] != before["number"]):
            print(f"{before['kind']} {name}/{fault['name']} ended", flush=True)
            del shown[place]
        if active is not None:
            waiting |= "ends" in active
            if place not in shown:
                nodes = active.get("nodes", [])
                where = ": " + ", ".join(nodes[:_MOST_NAMED]) if nodes else ""
                where += f" and {len(nodes) - _MOST_NAMED} more" if len(nodes) > _MOST_NAMED else ""
                print(f"{active['kind']} {name}/{fault['name']} began{where}", flush=True)
                shown[place] = active
    return waiting


def _is_over(found: dict[str, Any]) -> bool:
    """Whether every fault has begun as often as the plan says."""
    begun = {one["name"]: one.get("begun", 0) for one in (found.get("status") or {}).get("faults") or ()}
    for fault in found["spec"]["faults"]:
        kind = next(
            name for name in fault if name not in ("name", "after", "every", "jitter", "for", "times")
        )
        times = fault.get("times", None if fault.get("every") else 1)
        if times is None or begun.get(fault.get("name") or kind, 0) < times:
            return False
    return True


def _delete(session: Session, name: str) -> None:
    """Delete one, and wait until its faults have ended."""
    try:
        session.delete(f"{_PATH}/{name}")
        while True:
            session.get(f"{_PATH}/{name}")
            time.sleep(_POLL_SECONDS / 10)
    except StatusError as error:
        if error.code != 404:
            raise
