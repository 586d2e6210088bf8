"""`python -m benchmarks.attacks.growth`: fail if what a user writes costs more than n log n, or holds the event loop.

The known cases come first, then every list, map, string and number of every kind and pairs of lists of some, in an
order that `--seed` decides, until `--minutes` are over. What exceeds a bound is measured a second time, on a new
server, and reported if it does so again.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence

from benchmarks.attacks.growth.cases import Case, of_all_kinds, pairs_of
from benchmarks.attacks.growth.judge import BOUNDS, Bounds, Finding, judge
from benchmarks.attacks.growth.known import KNOWN
from benchmarks.attacks.growth.trial import Point, Servers, run_case
from benchmarks.servers.files import raise_file_limit

_PAIRED = ("pods", "services", "networkpolicies", "ingresses")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.attacks.growth", description=__doc__)
    parser.add_argument("--only", action="append", default=[], help="cases whose name contains this")
    parser.add_argument("--skip", action="append", default=[], help="cases whose name contains this")
    parser.add_argument("--minutes", type=float, default=45.0, help="start no case after this (default 45)")
    parser.add_argument("--seed", type=int, default=None, help="of the order (default: by the time)")
    parser.add_argument("--list", action="store_true", help="print the cases")
    options = parser.parse_args()
    seed = int(time.time()) if options.seed is None else options.seed
    cases = chosen(seed, options.only, options.skip)
    if options.list:
        print("\n".join(case.name for case in cases))
        return 0
    raise_file_limit()
    return _tried(cases, seed, options.minutes)


def chosen(seed: int, only: Sequence[str] = (), skip: Sequence[str] = ()) -> list[Case]:
    order = random.Random(seed)
    generated = list(of_all_kinds())
    pairs = [case for plural in _PAIRED for case in pairs_of(plural)]
    generated += order.sample(pairs, min(len(pairs), len(generated) // 4))
    order.shuffle(generated)
    return [
        case
        for case in (*KNOWN, *generated)
        if (not only or any(part in case.name for part in only))
        and not any(part in case.name for part in skip)
    ]


def _tried(cases: list[Case], seed: int, minutes: float) -> int:
    ends = time.monotonic() + minutes * 60
    tried = written = 0
    findings: list[Finding] = []
    servers = Servers()
    try:
        for case in cases:
            if time.monotonic() > ends:
                break
            points, found = confirmed(servers, case)
            tried, written = tried + 1, written + (len(_accepted(points)) > 1)
            findings += found
            print("\n".join(map(str, found)) or _summary(case, points), flush=True)
    finally:
        servers.close()
    print(f"{tried} of {len(cases)} cases, seed {seed}; {written} were written; {len(findings)} findings")
    return 1 if findings else 0


def _accepted(points: list[Point]) -> list[Point]:
    return [point for point in points if 200 <= point.status < 300]


def _summary(case: Case, points: list[Point]) -> str:
    if not points:
        return f"ok {case.name}: every size is larger than a request may be"
    cpu, hold = (max(getattr(point.used, name) for point in points) for name in ("cpu", "hold"))
    largest = max((point.count for point in _accepted(points)), default=0)
    return f"ok {case.name}: written up to {largest}; {cpu:.2f} s, holds up to {hold * 1000:.0f} ms"


def confirmed(servers: Servers, case: Case, bounds: Bounds = BOUNDS) -> tuple[list[Point], list[Finding]]:
    """What each size used, and what exceeds a bound twice."""
    points = run_case(servers, case, bounds.most)
    first = judge(case.name, points, fits=case.fits, bounds=bounds)
    if not first:
        return points, []
    if not any(point.given_up for point in points):
        servers.discard(case.target)
    second = judge(case.name, run_case(servers, case, bounds.most), fits=case.fits, bounds=bounds)
    kinds = {finding.what.split()[0] for finding in first}
    return points, [finding for finding in second if finding.what.split()[0] in kinds]


if __name__ == "__main__":
    sys.exit(main())
