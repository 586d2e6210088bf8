"""A world that chance wrote comes to rest twice in the same state, and a recording tells when it does not."""

from __future__ import annotations

from collections.abc import Iterator

import orjson
import pytest

from tests.stories.api import Api, served
from tests.stories.player import play
from tests.stories.random_worlds import FAMILIES, random_world
from tests.stories.recorder import record


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    with served("1.36", own_nodes=False) as found:
        yield found


@pytest.mark.parametrize("family", FAMILIES)
def test_seed_gives_one_world(family: str) -> None:
    assert random_world(family, 5, "1.36") == random_world(family, 5, "1.36")
    assert random_world(family, 5, "1.36")["steps"] != random_world(family, 6, "1.36")["steps"]


@pytest.mark.parametrize("family", ["preempt", "workloads"])
def test_recorded_world_is_equal_when_it_is_played(api: Api, family: str) -> None:
    recorded = record(api, random_world(family, 0, "1.36"), quiet=4)
    assert "unsettled" not in recorded
    assert play(api, recorded, own_nodes=False) == []


def test_other_recorded_node_is_a_difference(api: Api) -> None:
    recorded = record(api, random_world("place", 0, "1.36"), quiet=4)
    spec = next(
        one["spec"]
        for name, one in recorded["recorded"]["s1"]["objects"].items()
        if name.startswith("Pod/") and "nodeName" in one["spec"]
    )
    chosen, spec["nodeName"] = spec["nodeName"], "another"
    assert any(
        f"nodeName: {chosen}, recorded another" in line for line in play(api, recorded, own_nodes=False)
    )


def test_state_that_does_not_rest_is_named(api: Api) -> None:
    story = random_world("workloads", 0, "1.36")
    never = {"kind": "Pod", "name": "nobody"}
    story["steps"] = [{"do": "settle", "name": "waits", "until": [never], "timeout": 3}]
    recorded = record(api, story, quiet=1)
    assert recorded["unsettled"] == ["waits"]
    assert orjson.dumps(recorded["recorded"]["waits"]["objects"]) == b"{}"
