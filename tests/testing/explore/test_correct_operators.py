"""Operators that copy values chosen by the server pass; a real difference is still found."""

from __future__ import annotations

from typing import Any

import pytest

import rewound
from tests.testing.explore.operators import claims_without_service, create_apps, installs_apps

NODES: Any = {"flags": ["--nodes=2"]}


def test_operator_with_services_jobs_claims_and_generated_names_passes() -> None:
    assert rewound.explore(installs_apps, create_apps, runs=5, seed=3).runs == 5


def test_operator_passes_where_pods_run() -> None:
    assert rewound.explore(installs_apps, create_apps, runs=2, seed=4, most=3000, **NODES).runs == 2


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_operator_passes_a_thousand_runs() -> None:
    explored = rewound.explore(installs_apps, create_apps, runs=1000)
    print(explored)
    assert explored.runs == 1000


def test_missing_claim_is_found_behind_other_addresses_and_uids() -> None:
    with pytest.raises(rewound.ExplorationFailed) as failed:
        rewound.explore(claims_without_service, create_apps, repeat="7:crash:1")
    reason = failed.value.reason
    assert "persistentvolumeclaims default/" in reason and "is missing" in reason
    assert "uid" not in reason and "clusterIP" not in reason and "nodePort" not in reason
