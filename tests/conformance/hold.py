"""Replays recorded conversations against the server; fails when one that passing.txt lists is no longer exact.

    python tests/conformance/hold.py ../shared/conformance            # all that passing.txt lists must be exact
    python tests/conformance/hold.py ../shared/conformance --learn    # add newly exact ones to passing.txt
    python tests/conformance/hold.py ../shared/conformance --transport asgi-http2
    python tests/conformance/hold.py ../shared/conformance --profile v1.25 # all but those that its rules change
    python tests/conformance/hold.py ../shared/conformance --only watch/   # whose names begin so
    python tests/conformance/hold.py ../shared/conformance --kubernetes 1.36   # those of that version, passing-1.36.txt

The recordings and the script that replays them are not part of this project; `make conformance` needs them.
"""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).parent
FIRST = "1.25"  # whose scenarios are those in scenarios/; those of other versions are in versions/
VERSIONS = (FIRST, "1.30", "1.36")
CHANGED = HERE / "changed_by_v1_25.txt"  # whose responses differ by the rules of the profile v1.25
SERVE = "env PYTHONPATH={root} {python} -m tests.conformance.through {transport} {{port}} --data-dir {{dir}}"
# The rules of the documents, to which the recordings were brought where the two differ, whatever the dialect. They were
# made on a server without these controllers: clients in them remove the finalizers of claims and volumes themselves.
RULES = " --profile {profile} --controllers={controllers}"
CONTROLLERS = "default,-pv-protection,-pvc-protection"
# Newer versions were recorded as they are: their servers follow the rules of Kubernetes, and were kube-apiserver alone,
# without a controller manager. The flag needs a name: this controller does nothing within an hour.
NEWER = ("kubernetes", "v1.25")  # dialect and profile
NO_CONTROLLERS = "csrcleaner"
# Many of these recordings wait for what only a controller would do, until their limit. Several servers wait at the same
# time.
SERVERS_OF_NEWER = 4
LONGEST = 3600  # seconds of all scenarios, on a busy machine
TRANSPORTS = ("http1", "http2", "asgi-http1", "asgi-http2", "asgi-http3", "workers", "etcd")


def list_of(version: str) -> pathlib.Path:
    """The file with the names of the scenarios of a version that must be exact."""
    return HERE / ("passing.txt" if version == FIRST else f"passing-{version}.txt")


def scenarios_of(folder: pathlib.Path, version: str) -> pathlib.Path:
    return folder / "scenarios" if version == FIRST else folder / "versions" / version


def read_passing(version: str, profile: str = "documents") -> list[str]:
    changed = CHANGED.read_text().split() if version == FIRST and profile != "documents" else []
    return [name for name in list_of(version).read_text().split() if name not in changed]


def replay(scenarios: list[str], given: argparse.Namespace) -> set[str]:
    """Runs the scenarios; returns those whose responses are exact."""
    servers = 1 if given.kubernetes == FIRST else SERVERS_OF_NEWER
    parts = [part for start in range(servers) if (part := scenarios[start::servers])]
    with ThreadPoolExecutor(servers) as pool:
        return set().union(*pool.map(lambda part: replay_together(part, given), parts))


def replay_together(scenarios: list[str], given: argparse.Namespace) -> set[str]:
    """Runs the scenarios on one server."""
    folder, dialect = given.folder, given.dialect
    command = SERVE.format(root=HERE.parents[1], python=sys.executable, transport=given.transport)
    command += f" --dialect {dialect} --kubernetes-version {given.kubernetes}"
    controllers = CONTROLLERS if given.kubernetes == FIRST else NO_CONTROLLERS
    command += RULES.format(profile=given.profile, controllers=controllers)
    paths = [str(scenarios_of(folder, given.kubernetes) / name) for name in scenarios]
    with tempfile.NamedTemporaryFile("r") as exact:
        call = [sys.executable, str(folder / "replay.py"), "--serve", command, "--passing", exact.name]
        result = subprocess.run(
            [*call, "--dialect", dialect, "-j", "4", *paths], capture_output=True, text=True, timeout=LONGEST
        )
        if not result.stdout.strip():
            sys.exit(f"replay.py printed no result:\n{result.stderr[-4000:]}")
        print(result.stdout)
        return set(exact.read().split())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path, help="the folder with replay.py and scenarios/")
    parser.add_argument("--learn", action="store_true", help="add newly exact scenarios to passing.txt")
    parser.add_argument("--dialect", choices=["cluster", "kubernetes"], default="cluster")
    parser.add_argument(
        "--profile", choices=["documents", "v1.25"], default="documents", help="rules of the server"
    )
    parser.add_argument("--transport", choices=TRANSPORTS, default="http1", help="that requests go through")
    parser.add_argument("--kubernetes", choices=VERSIONS, default=FIRST, help="version of the server")
    parser.add_argument("--only", default="", metavar="START", help="scenarios whose names begin so")
    arguments = parser.parse_args()
    version = arguments.kubernetes
    if version != FIRST:
        arguments.dialect, arguments.profile = NEWER
    if arguments.learn:
        found = scenarios_of(arguments.folder, version).glob("*/*.json")
        scenarios = sorted(f"{path.parent.name}/{path.name}" for path in found)
        exact = replay([name for name in scenarios if name.startswith(arguments.only)], arguments)
        list_of(version).write_text("".join(f"{name}\n" for name in sorted({*read_passing(version), *exact})))
        return
    required = [name for name in read_passing(version, arguments.profile) if name.startswith(arguments.only)]
    lost = required
    # Managers are sorted by the second of their last write: on a busy machine two writes that were recorded in the
    # same second may be in two. So what is not exact is tried once more.
    for _ in range(2):
        if lost:
            lost = sorted(set(lost) - replay(lost, arguments))
    if lost:
        sys.exit("no longer exact:\n  " + "\n  ".join(lost))
    print(f"{len(required)} passed, 0 failed")


if __name__ == "__main__":
    main()
