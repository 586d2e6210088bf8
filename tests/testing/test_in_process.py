"""A server in the test's own process, without a socket: the fixture in the mode in-process, and httpx.ASGITransport."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from gateway.asgi import create_application
from gateway.cli.fixture.control_client import RequestFailed
from gateway.cli.fixture.rewound import Rewound
from tests.gateway.api import ADMIN, settings

MAPS = "/api/v1/namespaces/default/configmaps"

in_process = pytest.mark.rewound(mode="in-process")


@in_process
def test_client_needs_no_socket(rewound: Rewound) -> None:
    with rewound.client("in-process") as api:
        made = api.post(MAPS, json={"metadata": {"name": "a"}, "data": {"k": "v"}})
        assert made.status_code == 201
        assert api.get(f"{MAPS}/a").json() == made.json()
        assert "a" in [one["metadata"]["name"] for one in api.get(MAPS).json()["items"]]
    assert rewound.port == 0
    with pytest.raises(ValueError, match="needs a socket"):
        rewound.client("lightkube")


@in_process
def test_watch_is_read_while_it_runs(rewound: Rewound) -> None:
    named = "fieldSelector=metadata.name%3Da"
    with rewound.client() as api, api.stream("GET", f"{MAPS}?watch=1&{named}") as watch:
        lines = watch.iter_lines()
        api.post(MAPS, json={"metadata": {"name": "a"}})
        assert json.loads(next(lines))["object"]["metadata"]["name"] == "a"
        api.delete(f"{MAPS}/a")
        assert json.loads(next(lines))["type"] == "DELETED"


@in_process
def test_everything_else_of_the_fixture_works_too(rewound: Rewound) -> None:
    before = rewound.snapshot()
    rewound.request("POST", MAPS, {"metadata": {"name": "a"}})
    before.restore()
    with pytest.raises(RequestFailed, match="404"):
        rewound.request("GET", f"{MAPS}/a")
    rewound.request("POST", MAPS, {"metadata": {"name": "a"}})
    rewound.faults({"match": {"verbs": ["update"]}, "fault": {"conflict": {}}, "first": 1})
    with pytest.raises(RequestFailed, match="409"):
        rewound.request("PUT", f"{MAPS}/a", {"metadata": {"name": "a"}})
    event = {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}, "reason": "Tested"}
    rewound.request("POST", "/api/v1/namespaces/default/events", event)
    rewound.advance(3700)
    assert rewound.request("GET", "/api/v1/namespaces/default/events")["items"] == []
    assert "events default/e" in rewound.story()


def test_another_process_has_no_such_client(rewound: Rewound) -> None:
    with pytest.raises(ValueError, match="mode='in-process'"):
        rewound.client("in-process")


async def test_httpx_sends_requests_to_the_application(tmp_path: Path) -> None:
    application = create_application(settings(tmp_path))
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(application),
        base_url="http://rewound",
        headers={"authorization": f"Bearer {ADMIN}"},
    ) as client:
        assert (await client.get("/version")).status_code == 503
        async with application.running():
            assert (await client.get("/version")).json()["major"] == "1"
            assert (await client.post(MAPS, json={"metadata": {"name": "a"}})).status_code == 201
            # It returns a response when that is whole: a watch has to end.
            watch = await client.get(MAPS, params={"watch": "1", "timeoutSeconds": "1"})
            assert [json.loads(line)["type"] for line in watch.text.splitlines()] == ["ADDED"]
        assert (await client.get("/version")).status_code == 503
