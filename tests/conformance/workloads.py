"""Plays stories of workloads, as recorded from the controllers, scheduler and nodes of v1.25, against a server of ours.

    python -m tests.conformance.workloads ../shared/reference/workloads                 # all that are not slow
    python -m tests.conformance.workloads ../shared/reference/workloads --only '^sts-'  # slow ones too
    python -m tests.conformance.workloads ../shared/reference/workloads --builtin-nodes

The folder has `run.py`, which plays the stories in `scenarios/` and prints where the server comes to rest elsewhere; it
plays the nodes too, unless the server does (--builtin-nodes). Neither is part of this project; `make workloads` needs
them. What fails is played once more, alone: on a busy machine a story may not come to rest in time.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from tests.gateway.processes import COMMAND
from tests.ports import reserve_port

TOKEN = "administrator"
# The settings of the recorded cluster that shorten waiting.
FLAGS = (
    "--kubernetes-version=1.25",
    "--controllers=*",
    "--node-monitor-period=2s",
    "--node-monitor-grace-period=20s",
    "--node-startup-grace-period=30s",
    "--pvclaimbinder-sync-period=3s",
)
_LINE = re.compile(r"^FAIL\s+(\S+)", re.MULTILINE)


@contextmanager
def served(flags: list[str]) -> Iterator[str]:
    """The address of a new server."""
    with tempfile.TemporaryDirectory() as folder:
        tokens = pathlib.Path(folder, "tokens.csv")
        tokens.write_text(f'{TOKEN},administrator,1,"system:masters"\n')
        port = reserve_port()
        own = ["--insecure-port", str(port), "--secure-port", "0", "--dialect", "kubernetes"]
        own += ["--data-dir", f"{folder}/data", "--token-auth-file", str(tokens)]
        with subprocess.Popen([*COMMAND, "serve", *own, *flags]) as process:
            try:
                url = f"http://127.0.0.1:{port}"
                _wait_until_ready(process, url)
                yield url
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(60)


def _wait_until_ready(process: subprocess.Popen[bytes], url: str) -> None:
    with httpx.Client(transport=httpx.HTTPTransport(retries=5)) as client:
        while process.poll() is None:
            try:
                if client.get(f"{url}/readyz").status_code == 200:
                    return
            except httpx.TransportError:
                continue
    sys.exit(f"the server ended with {process.returncode} before it was ready")


def play(folder: pathlib.Path, url: str, names: list[str], options: list[str]) -> list[str]:
    """Plays the stories; returns the names of those that differ."""
    paths = [str(folder / "scenarios" / f"{name}.json") for name in names]
    call = [sys.executable, "-u", str(folder / "run.py"), "--server", url, "--token", TOKEN, *options, *paths]
    printed = []
    with subprocess.Popen(call, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            print(line, end="", flush=True)
            printed.append(line)
    output = "".join(printed)
    failed = [name for name in names if name in set(_LINE.findall(output))]
    if running.returncode and not failed:
        sys.exit(f"run.py ended with {running.returncode} and named no story")
    return failed


def stories(folder: pathlib.Path, only: str) -> list[str]:
    """Their names: all that match, or all that take less than a minute."""
    found = []
    for path in sorted(folder.glob("scenarios/*.json")):
        is_slow = json.loads(path.read_text()).get("slow", False)
        if re.search(only, path.stem) if only else not is_slow:
            found.append(path.stem)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="the folder with run.py and scenarios/")
    parser.add_argument("--only", default="", metavar="REGEX", help="stories whose names match")
    parser.add_argument("--builtin-nodes", action="store_true", help="the server runs the nodes")
    parser.add_argument("--patience", default="3", help="multiplies all time limits (default 3)")
    parser.add_argument("--parallel", default="4", help="stories at once (default 4)")
    arguments = parser.parse_args()
    options = ["--patience", arguments.patience]
    options += ["--builtin-nodes"] if arguments.builtin_nodes else []
    names = stories(arguments.folder, arguments.only)
    # So that the server simulates all Node objects, and makes none.
    nodes = ["--nodes=0"] if arguments.builtin_nodes else []
    with served([*FLAGS, *nodes]) as url:
        lost = play(arguments.folder, url, names, [*options, "--parallel", arguments.parallel])
        if lost:
            lost = play(arguments.folder, url, lost, options)
    if lost:
        sys.exit("other than recorded:\n  " + "\n  ".join(lost))
    print(f"{len(names)} passed, 0 failed")


if __name__ == "__main__":
    main()
