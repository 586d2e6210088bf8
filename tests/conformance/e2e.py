"""Runs the end-to-end tests of Kubernetes against a server with simulated nodes, and prints what failed.

    python -m tests.conformance.e2e kubernetes/test/bin/e2e.test
    python -m tests.conformance.e2e kubernetes/test/bin/e2e.test --focus 'sig-scheduling' --processes 4

The programs are those of Kubernetes' archive kubernetes-test-OS-ARCHITECTURE.tar.gz: e2e.test, and beside it ginkgo,
which several processes need, and kubectl. The server is of the version of e2e.test. Specs in `e2e_needs.txt` are left
out: they need a program in a container, or a network between containers. docs/nodes.md counts the others.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NEEDS = Path(__file__).with_name("e2e_needs.txt")
START = 300  # seconds, on a busy machine
LONGEST = 4 * 3600  # seconds of one run of e2e.test
SERIAL = r"\[Serial\]|\[Disruptive\]"
PASSED, FAILED = "passed", "failed"


def needs() -> list[str]:
    """Patterns of specs that simulated nodes cannot run; `#` begins a comment."""
    lines = (line.strip() for line in NEEDS.read_text().splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def version_of(e2e_test: Path) -> str:
    printed = subprocess.run([e2e_test, "--version"], capture_output=True, text=True, timeout=60).stdout
    found = re.search(r"v(\d+\.\d+)\.", printed)
    if found is None:
        sys.exit(f"{e2e_test} --version printed no version: {printed}")
    return found[1]


@contextmanager
def cluster(version: str, folder: Path) -> Iterator[Path]:
    """Start a server with three nodes, and stop it; the value is its kubeconfig."""
    kubeconfig = folder / "kubeconfig"
    environment = os.environ | {"XDG_STATE_HOME": str(folder), "KUBECONFIG": str(kubeconfig)}
    rewound = [sys.executable, "-m", "rewound"]
    up = [*rewound, "up", "e2e", "--kubernetes-version", version]
    subprocess.run(up, env=environment, check=True, timeout=START)
    try:
        yield kubeconfig
    finally:
        subprocess.run([*rewound, "down", "e2e", "--delete"], env=environment, check=True, timeout=START)


def run(given: argparse.Namespace, kubeconfig: Path, serial: bool) -> dict[str, str]:
    """Run the specs that may run beside others, or those that may not; returns how each ended."""
    report = given.report / ("serial.xml" if serial else "parallel.xml")
    processes = 1 if serial else given.processes
    skip = needs() if serial else [*needs(), SERIAL]
    focus = f"(?:{given.focus}).*(?:{SERIAL})|(?:{SERIAL}).*(?:{given.focus})" if serial else given.focus
    flags = {
        "focus": focus,
        "skip": "|".join(skip),
        "junit-report": report.name,
        "output-dir": str(report.parent),
    }
    own = [f"--kubeconfig={kubeconfig}", "--provider=skeleton", f"--kubectl-path={given.kubectl}"]
    if processes > 1:
        ginkgo = [given.e2e_test.with_name("ginkgo"), f"--procs={processes}"]
        command = [
            *ginkgo,
            *(f"--{flag}={value}" for flag, value in flags.items()),
            given.e2e_test,
            "--",
            *own,
        ]
    else:
        flags["junit-report"] = str(report)
        del flags["output-dir"]
        command = [given.e2e_test, *(f"--ginkgo.{flag}={value}" for flag, value in flags.items()), *own]
    with (given.report / f"{report.stem}.log").open("w") as log:
        subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, timeout=LONGEST)
    return dict(results(report))


def results(report: Path) -> Iterator[tuple[str, str]]:
    for case in xml.parse(report).iter("testcase"):
        status = case.get("status")
        if case.get("name", "").startswith("[It]") and status not in ("skipped", "pending"):
            yield case.get("name", ""), PASSED if status == PASSED else FAILED


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("e2e_test", type=Path)
    parser.add_argument("--focus", default=r"\[Conformance\]", help="pattern of the names of specs")
    parser.add_argument("--processes", type=int, default=1, help="that run specs at the same time")
    parser.add_argument(
        "--report", type=Path, default=Path("build/e2e"), help="folder of logs and JUnit files"
    )
    parser.add_argument("--kubectl", type=Path, help="(default the one beside e2e.test)")
    given = parser.parse_args()
    given.e2e_test = given.e2e_test.absolute()
    given.kubectl = given.kubectl or given.e2e_test.with_name("kubectl")
    given.report = given.report.absolute()
    given.report.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        cluster(version_of(given.e2e_test), Path(folder)) as kubeconfig,
    ):
        ended = run(given, kubeconfig, serial=False) | run(given, kubeconfig, serial=True)
    failed = sorted(name for name, how in ended.items() if how == FAILED)
    print(f"{len(ended) - len(failed)} passed, {len(failed)} failed", *failed, sep="\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
