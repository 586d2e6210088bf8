"""Replays recorded conversations against the server; fails when one that passing.txt lists is no longer exact.

    python tests/conformance/hold.py ../shared/conformance            # all that passing.txt lists must be exact
    python tests/conformance/hold.py ../shared/conformance --learn    # add newly exact ones to passing.txt

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
SERVE = "{command} serve --data-dir {{dir}} --secure-port 0 --insecure-port {{port}}"


def read_passing() -> list[str]:
    return PASSING.read_text().split()


def replay(folder: pathlib.Path, scenarios: list[str], dialect: str) -> set[str]:
    """Runs the scenarios; returns those whose responses are exact."""
    command = SERVE.format(command=pathlib.Path(sys.executable).parent / "rewound")
    command += f" --dialect {dialect}"
    paths = [str(folder / "scenarios" / name) for name in scenarios]
    with tempfile.NamedTemporaryFile("r") as exact:
        call = [sys.executable, str(folder / "replay.py"), "--serve", command, "--passing", exact.name]
        result = subprocess.run(
            [*call, "--dialect", dialect, "-j", "4", *paths], capture_output=True, text=True
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
    arguments = parser.parse_args()
    if arguments.learn:
        scenarios = [f"{p.parent.name}/{p.name}" for p in arguments.folder.glob("scenarios/*/*.json")]
        exact = replay(arguments.folder, sorted(scenarios), arguments.dialect)
        PASSING.write_text("".join(f"{name}\n" for name in sorted({*read_passing(), *exact})))
        return
    required = read_passing()
    lost = sorted(set(required) - replay(arguments.folder, required, arguments.dialect)) if required else []
    if lost:
        # Managers are sorted by the second of their last write: on a busy machine two writes that were recorded in
        # the same second may be in two.
        lost = sorted(set(lost) - replay(arguments.folder, lost, arguments.dialect))
    if lost:
        sys.exit("no longer exact:\n  " + "\n  ".join(lost))
    print(f"{len(required)} passed, 0 failed")


if __name__ == "__main__":
    main()
