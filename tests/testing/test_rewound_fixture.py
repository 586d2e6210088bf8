"""The fixture `rewound`: a server of the test's own, in its initial state, and what a test does with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.cli.fixture.control_client import RequestFailed
from gateway.cli.fixture.rewound import Rewound
from gateway.cli.fixture.serving import prepare
from gateway.settings.checks import SettingsError

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


@pytest.mark.parametrize("again", [1, 2])
def test_each_test_begins_with_the_same_objects(rewound: Rewound, again: int) -> None:
    """The second test may get the server of the first, which was restored."""
    listed = rewound.request("GET", CONFIG_MAPS)
    assert [one["metadata"]["name"] for one in listed["items"]] == ["kube-root-ca.crt"]
    rewound.request("POST", CONFIG_MAPS, config_map("mine"))
    rewound.request("DELETE", f"{CONFIG_MAPS}/kube-root-ca.crt")
    rewound.request("POST", "/api/v1/namespaces", {"metadata": {"name": "mine"}})


async def test_fixture_works_in_asynchronous_tests(rewound: Rewound) -> None:
    async with rewound.client("httpx-async") as client:
        assert (await client.get(CONFIG_MAPS)).status_code == 200


def test_client_and_kubeconfig_lead_to_the_server(rewound: Rewound) -> None:
    with rewound.client("httpx") as client:
        assert isinstance(client, httpx.Client)
        assert client.get("/version").json()["major"] == "1"
    assert f"server: {rewound.url}" in rewound.kubeconfig.read_text().replace('"', "")
    assert rewound.environment == {"KUBECONFIG": str(rewound.kubeconfig), "REWOUND_URL": rewound.url}
    with pytest.raises(ValueError, match="there are kubernetes, lightkube, pykube"):
        rewound.client("carrier-pigeon")


def test_snapshot_is_restored(rewound: Rewound) -> None:
    before = rewound.request("POST", CONFIG_MAPS, config_map("one", color="blue"))
    snapshot = rewound.snapshot()
    rewound.request("PUT", f"{CONFIG_MAPS}/one", config_map("one", color="red"))
    rewound.request("POST", CONFIG_MAPS, config_map("two"))
    assert snapshot.restore() == 2
    after = rewound.request("GET", f"{CONFIG_MAPS}/one")
    assert (after["data"], after["metadata"]["uid"]) == ({"color": "blue"}, before["metadata"]["uid"])
    assert rewound.restore() == 1  # to the begin of the test
    with pytest.raises(RequestFailed, match='404: configmaps "one" not found'):
        rewound.request("GET", f"{CONFIG_MAPS}/one")


def test_faults_end_with_their_block(rewound: Rewound) -> None:
    rewound.request("POST", CONFIG_MAPS, config_map("one"))
    with rewound.faults({"match": {"verbs": ["update"]}, "fault": {"conflict": {}}}, seed=7):
        with pytest.raises(RequestFailed) as refused:
            rewound.request("PUT", f"{CONFIG_MAPS}/one", config_map("one", color="red"))
        assert refused.value.status == 409
    rewound.request("PUT", f"{CONFIG_MAPS}/one", config_map("one", color="red"))


def test_clock_is_advanced(rewound: Rewound) -> None:
    event = {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}, "reason": "Tested"}
    rewound.request("POST", "/api/v1/namespaces/default/events", event)
    rewound.advance(3700)
    with pytest.raises(RequestFailed, match="404"):
        rewound.request("GET", "/api/v1/namespaces/default/events/e")


@pytest.mark.rewound(dialect="cluster", flags=["--event-ttl=5m"], mode="thread")
def test_marker_chooses_dialect_flags_and_mode(rewound: Rewound) -> None:
    groups = rewound.request("GET", "/apis")["groups"]
    assert "rbac.authorization.cluster.io" in {group["name"] for group in groups}
    rewound.request("POST", CONFIG_MAPS, config_map("one"))
    assert f"configmaps default/one\n{rewound.version:8}" in rewound.story()
    with rewound.client() as client:
        assert isinstance(client, httpx.Client)  # other libraries do not know this dialect


@pytest.mark.parametrize(
    "flag", ["--data-dir=elsewhere", "--dialect=cluster", "--secure-port=1", "--enable-test-controls=false"]
)
def test_flags_that_the_fixture_sets_are_refused(flag: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="the test server sets these itself"):
        prepare(tmp_path, "kubernetes", [flag])


@pytest.mark.parametrize("count", [3, pytest.param(50, marks=pytest.mark.slow)])
def test_servers_at_once_do_not_collide(rewound: Rewound, count: int, request: pytest.FixtureRequest) -> None:
    from gateway.cli.fixture.plugin import _pool_key

    pool = request.config.stash[_pool_key]
    others = [pool.take("process", "kubernetes", fresh=True) for _ in range(count)]
    try:
        everyone = [rewound, *others]
        assert len({server.port for server in everyone}) == count + 1
        for number, server in enumerate(everyone):
            server.request("POST", CONFIG_MAPS, config_map(f"of-{number}"))
        for number, server in enumerate(everyone):
            names = {one["metadata"]["name"] for one in server.request("GET", CONFIG_MAPS)["items"]}
            assert names == {"kube-root-ca.crt", f"of-{number}"}
    finally:
        for server in others:
            pool.discard(server)
            assert not server.data_dir.exists()
