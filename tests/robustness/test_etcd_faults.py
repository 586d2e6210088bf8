"""Random faults of three nodes and three members of etcd: nothing acknowledged is lost, and no watch misses anything.

REWOUND_ETCD_ROUNDS: the number of rounds of the long version (`make faults-etcd`).
"""

from __future__ import annotations

import os
import time

import pytest

from tests.etcd_members import needs_etcd
from tests.robustness.etcd_trial import etcd_trial

ROUNDS_OF_ONE_CLUSTER = 10  # then another one, with another seed


@needs_etcd
def test_nodes_keep_the_guarantees_through_faults() -> None:
    with etcd_trial("short") as trial:
        trial.run(seconds=1.5, faults=2, among=("cut member", "cut node", "step clock of node"))
        tally = trial.finish()
    assert tally.acknowledged > 0 and tally.events > 0
    print(tally)


@needs_etcd
@pytest.mark.slow
@pytest.mark.timeout(0)
def test_nodes_keep_the_guarantees_through_many_faults() -> None:
    rounds, base = int(os.environ.get("REWOUND_ETCD_ROUNDS", "200")), os.environ.get("REWOUND_SEED", "")
    base = base or str(time.time_ns())
    for begin in range(0, rounds, ROUNDS_OF_ONE_CLUSTER):
        with etcd_trial(f"{base} {begin}") as trial:
            for number in range(min(ROUNDS_OF_ONE_CLUSTER, rounds - begin)):
                trial.run(seconds=6.0, faults=1 + number % 4)
            print(trial.finish(), flush=True)
