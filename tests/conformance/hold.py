"""Replays recorded conversations against the server; fails when one that passing.txt lists is no longer exact.

    python tests/conformance/hold.py ../shared/conformance            # all that passing.txt lists must be exact
    python tests/conformance/hold.py ../shared/conformance --learn    # add newly exact ones to passing.txt
    python tests/conformance/hold.py ../shared/conformance --transport asgi-http2
    python tests/conformance/hold.py ../shared/conformance --profile v1.25 # all but those that its rules change
    python tests/conformance/hold.py ../shared/conformance --only watch/   # whose names begin so

The recordings and the script that replays them are not part of this project; `make conformance` needs them.
"""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
PASSING = HERE / "passing.txt"
CHANGED = HERE / "changed_by_v1_25.txt"  # whose responses differ by the rules of the profile v1.25
SERVE = "env PYTHONPATH={root} {python} -m tests.conformance.through {transport} {{port}} --data-dir {{dir}}"
# The rules of the documents, to which the recordings were brought where the two differ, whatever the dialect. They were
# made on a server without these controllers: clients in them remove the finalizers of claims and volumes themselves.
RULES = " --profile {profile} --controllers=default,-pv-protection,-pvc-protection"
LONGEST = 3600  # seconds of all scenarios, on a busy machine
TRANSPORTS = ("http1", "http2", "asgi-http1", "asgi-http2", "asgi-http3", "workers", "etcd")


def read_passing(profile: str = "documents") -> list[str]:
    changed = CHANGED.read_text().split() if profile != "documents" else []
    return [name for name in PASSING.read_text().split() if name not in changed]


def replay(
    folder: pathlib.Path, scenarios: list[str], dialect: str, transport: str, profile: str
) -> set[str]:
    """Runs the scenarios; returns those whose responses are exact."""
    command = SERVE.format(root=HERE.parents[1], python=sys.executable, transport=transport)
    command += f" --dialect {dialect}{RULES.format(profile=profile)}"
    paths = [str(folder / "scenarios" / name) for name in scenarios]
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
    parser.add_argument("--only", default="", metavar="START", help="scenarios whose names begin so")
    arguments = parser.parse_args()
    if arguments.learn:
        scenarios = [f"{p.parent.name}/{p.name}" for p in arguments.folder.glob("scenarios/*/*.json")]
        exact = replay(
            arguments.folder, sorted(scenarios), arguments.dialect, arguments.transport, arguments.profile
        )
        PASSING.write_text("".join(f"{name}\n" for name in sorted({*read_passing(), *exact})))
        return
    lost = required = [name for name in read_passing(arguments.profile) if name.startswith(arguments.only)]
    # Managers are sorted by the second of their last write: on a busy machine two writes that were recorded in the
    # same second may be in two. So what is not exact is tried once more.
    for _ in range(2):
        if lost:
            exact = replay(arguments.folder, lost, arguments.dialect, arguments.transport, arguments.profile)
            lost = sorted(set(lost) - exact)
    if lost:
        sys.exit("no longer exact:\n  " + "\n  ".join(lost))
    print(f"{len(required)} passed, 0 failed")


if __name__ == "__main__":
    main()
