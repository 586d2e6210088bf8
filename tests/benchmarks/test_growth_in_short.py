"""What one user writes costs at most n log n and holds no event loop: the short form of `make attacks`.

The worst that outside attacks found, and a fixed sample of lists, maps, strings and numbers of all kinds, against
servers in processes of their own. Sizes are smaller than the API admits. Only processor time and memory count, a bound
must be exceeded twice, and the bounds are far above those of the long form: on a machine that others use, processor
time is several times as long. What these cases are about took many seconds, or never ended.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from benchmarks.attacks.growth.__main__ import chosen, confirmed
from benchmarks.attacks.growth.cases import Case
from benchmarks.attacks.growth.judge import Bounds
from benchmarks.attacks.growth.known import KNOWN
from benchmarks.attacks.growth.trial import Servers

BOUNDS = Bounds(hold=1.5, most=60.0, floor=6.0)
SEED, SAMPLE = 57, 4
WORST = {
    "policy: doubled lists": (16, 27),
    "policy: shared lists that are compared": (16, 24),
    "policy: doubled variables": (16, 27),
    "policy: doubled lists in a message": (27,),
    "rule of a definition: doubled lists": (27,),
    "selector of a device: doubled lists": (16, 27),
    "selectors x devices": (4, 16),
    "containers x names of resources": (256, 2048),
    "owner references": (256, 1024, 4096),
    "depth of managedFields": (100, 580),
    "values of a label selector": (256, 1024, 4096),
    "requirements of a label selector": (16, 256, 1024),
    "items that a JSON patch inserts": (256, 1024, 4096),
    "recorder: depth of managedFields": (100, 580),
}


def short_cases() -> list[Case]:
    known = {case.name: case for case in KNOWN}
    worst = [msgspec.structs.replace(known[name], sizes=sizes) for name, sizes in WORST.items()]
    sample = [case for case in chosen(SEED) if case.name not in known][:SAMPLE]
    return [*worst, *(msgspec.structs.replace(case, sizes=case.sizes[:4]) for case in sample)]


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    servers = Servers()
    try:
        yield servers
    finally:
        servers.close()


@pytest.mark.parametrize("case", short_cases(), ids=lambda case: case.name)
def test_costs_grow_with_the_size_of_what_is_written(case: Case, servers: Servers) -> None:
    points, findings = confirmed(servers, case, BOUNDS)
    assert points, "every size is larger than a request may be"
    assert not findings, "\n".join(map(str, findings))
