"""Compares worlds that chance writes with a real cluster.

    python -m tests.stories record FOLDER --server https://127.0.0.1:6443 --token TOKEN --version 1.36 \\
        --family place --seeds 0-99
    python -m tests.stories play FOLDER --version 1.36

`record` plays worlds (tests/stories/random_worlds.py), or the stories of `--stories`, on a server that nothing else
uses, and writes each with the states in which it came to rest. `play` plays what was recorded here, in virtual time,
and prints what differs; its exit status is 1 if something does.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import orjson

from tests.stories.api import Object, connected, served
from tests.stories.player import play
from tests.stories.random_worlds import FAMILIES, random_world
from tests.stories.recorder import record


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.stories", description="Worlds that chance writes")
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser(
        "record", help="play worlds on a real cluster, and write where they came to rest"
    )
    recording.add_argument("folder", type=Path)
    recording.add_argument(
        "--server", required=True, help="URL of the API server; its certificate is not checked"
    )
    recording.add_argument("--token", default="", help="bearer token of an administrator")
    recording.add_argument("--family", choices=sorted(FAMILIES), default="place")
    recording.add_argument("--seeds", type=_range, default=range(10), help="FIRST-LAST")
    recording.add_argument("--stories", type=Path, nargs="*", help="play these files instead")
    recording.add_argument(
        "--quiet", type=float, default=3.0, help="seconds without a write that count as rest"
    )
    recording.add_argument("--skip", action="store_true", help="leave out what FOLDER has already")
    playing = commands.add_parser(
        "play", help="play what was recorded, in virtual time, and say what differs"
    )
    playing.add_argument("folder", type=Path)
    playing.add_argument("--simulated-nodes", action="store_true", help="the server simulates the nodes")
    playing.add_argument("--scheduler-config", type=Path, help="file with which the recorded scheduler ran")
    playing.add_argument(
        "--tries", type=int, default=4, help="of a world: a choice among equal nodes is random"
    )
    for one in (recording, playing):
        one.add_argument("--version", default="1.36", help="of Kubernetes, for example 1.36")
    given = parser.parse_args()
    return _record(given) if given.command == "record" else _play(given)


def _range(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def _worlds(given: argparse.Namespace) -> Iterator[Object]:
    if given.stories:
        for path in given.stories:
            yield orjson.loads(path.read_bytes())
    else:
        for seed in given.seeds:
            yield random_world(given.family, seed, given.version)


def _record(given: argparse.Namespace) -> int:
    given.folder.mkdir(parents=True, exist_ok=True)
    with connected(given.server, given.token) as api:
        for world in _worlds(given):
            path = given.folder / f"{world['id']}.json"
            if given.skip and path.exists():
                continue
            began = time.monotonic()
            recorded = record(api, world, quiet=given.quiet)
            path.write_bytes(orjson.dumps(recorded, option=orjson.OPT_INDENT_2))
            left = f": never at rest at {recorded['unsettled']}" if "unsettled" in recorded else ""
            print(f"{world['id']} {time.monotonic() - began:.0f} s{left}", flush=True)
    return 0


def _play(given: argparse.Namespace) -> int:
    equal, differing = 0, 0
    with served(given.version, own_nodes=given.simulated_nodes, scheduler=given.scheduler_config) as api:
        for path in sorted(given.folder.glob("*.json")):
            for _ in range(given.tries):
                found = play(api, orjson.loads(path.read_bytes()), own_nodes=given.simulated_nodes)
                if not found:
                    break
            equal, differing = equal + (not found), differing + bool(found)
            print(f"{path.stem} {'differs' if found else 'is equal'}", *found, sep="\n    ", flush=True)
    print(f"{equal} equal, {differing} differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
