"""`python -m benchmarks.attacks.growth`: fail if what a user writes costs more than n log n, or holds the event loop.

The known cases come first, then every list, map, string and number of every kind and pairs of lists of pods, in an
order that `--seed` decides, until `--minutes` are over. What exceeds a bound is measured a second time, on a new
server, and reported if it does so again.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

from benchmarks.attacks.growth.cases import Case, of_all_kinds, pairs_of
from benchmarks.attacks.growth.judge import Finding, judge
from benchmarks.attacks.growth.known import KNOWN
from benchmarks.attacks.growth.trial import Servers, run_case
from benchmarks.servers.files import raise_file_limit

_PAIRED = ("pods", "services", "networkpolicies", "ingresses")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.attacks.growth", description=__doc__)
    parser.add_argument("--only", action="append", default=[], help="cases whose name contains this")
    parser.add_argument("--minutes", type=float, default=45.0, help="start no case after this (default 45)")
    parser.add_argument("--seed", type=int, default=None, help="of the order (default: by the time)")
    parser.add_argument("--list", action="store_true", help="print the cases")
    options = parser.parse_args()
    seed = int(time.time()) if options.seed is None else options.seed
    cases = chosen(seed, options.only)
    if options.list:
        print("\n".join(case.name for case in cases))
        return 0
    raise_file_limit()
    return _tried(cases, seed, options.minutes)


def chosen(seed: int, only: list[str]) -> list[Case]:
    generated = [*of_all_kinds(), *(case for plural in _PAIRED for case in pairs_of(plural))]
    random.Random(seed).shuffle(generated)
    return [case for case in (*KNOWN, *generated) if not only or any(part in case.name for part in only)]


def _tried(cases: list[Case], seed: int, minutes: float) -> int:
    ends = time.monotonic() + minutes * 60
    tried = written = 0
    findings: list[Finding] = []
    servers = Servers()
    try:
        for case in cases:
            if time.monotonic() > ends:
                break
            accepted, found = confirmed(servers, case)
            tried, written = tried + 1, written + accepted
            findings += found
            for finding in found:
                print(finding, flush=True)
    finally:
        servers.close()
    print(f"{tried} of {len(cases)} cases, seed {seed}; {written} were written; {len(findings)} findings")
    return 1 if findings else 0


def confirmed(servers: Servers, case: Case) -> tuple[bool, list[Finding]]:
    """Whether the largest size but one was written, and what exceeds a bound twice."""
    points = run_case(servers, case)
    accepted = sum(200 <= point.status < 300 for point in points) > 1
    first = judge(case.name, points, fits=case.fits)
    if not first:
        return accepted, []
    if not any(point.given_up for point in points):
        servers.discard(case.target)
    second = judge(case.name, run_case(servers, case), fits=case.fits)
    kinds = {finding.what.split()[0] for finding in first}
    return accepted, [finding for finding in second if finding.what.split()[0] in kinds]


if __name__ == "__main__":
    sys.exit(main())
