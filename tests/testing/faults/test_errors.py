"""Fault rules for errors, delays and lost replies: what the client gets, what is written, and where it is visible."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest
import trio
from trio.testing import MockClock

from rewound.actors.access.authorization.chain import AlwaysAllow
from rewound.gateway.settings.checks import SettingsError
from rewound.gateway.settings.settings import AuditSettings
from rewound.server.extensions import Extensions
from tests.actors.object_store import Document, memory_folder
from tests.gateway.api import ALICE, Api, ApiResponse, config_map, served
from tests.gateway.watch.http2_watches import connection
from tests.gateway.watch.watch_stream import FramingError
from tests.testing.faults.injecting import FAULTS, PATH, injecting, on_config_maps, set_faults


@pytest.fixture
def folder() -> Iterator[Path]:
    with memory_folder() as found:
        yield found


def fault_of(response: ApiResponse) -> str | None:
    return response.headers.get("rewound-fault")


async def test_conflict_prevents_the_write() -> None:
    async with injecting(on_config_maps({"conflict": {}}, name="conflicts", first=1)) as api:
        created = await api.create("configmaps", config_map("a", text="old"))
        refused = await api.ask("PUT", f"{PATH}/a", config_map("a", text="new"))
        status = refused.expect(409)
        assert (status["reason"], status["details"]) == ("Conflict", {"name": "a", "kind": "configmaps"})
        assert status["message"].startswith(
            'Operation cannot be fulfilled on configmaps "a": the object has been'
        )
        assert fault_of(refused) == "conflicts"
        assert await api.get("configmaps", "a") == created
        written = await api.ask("PUT", f"{PATH}/a", config_map("a", text="new"))
        assert (written.status, fault_of(written)) == (200, None)


@pytest.mark.parametrize(
    ("fault", "code", "reason", "retry_after"),
    [
        ({"code": 429, "retryAfterSeconds": 7}, 429, "TooManyRequests", "7"),
        ({"code": 429}, 429, "TooManyRequests", "1"),
        ({"code": 500}, 500, "InternalError", None),
        ({"code": 503, "retryAfterSeconds": 2}, 503, "ServiceUnavailable", "2"),
        ({"code": 504, "message": "slow"}, 504, "Timeout", None),
    ],
)
async def test_error_response(fault: Document, code: int, reason: str, retry_after: str | None) -> None:
    async with injecting(on_config_maps({"error": fault})) as api:
        for response in (
            await api.ask("GET", PATH),
            await api.ask("POST", PATH, config_map("a")),
            await api.ask("GET", f"{PATH}?watch=1"),
        ):
            status = response.expect(code)
            assert status["reason"] == reason
            assert response.headers.get("retry-after") == retry_after
            assert status["message"] == fault.get(
                "message", "the fault rule 0 responds in place of the server"
            )
            assert fault_of(response) == "0"
        await set_faults(api)
        assert "a" not in [one["metadata"]["name"] for one in (await api.list("configmaps"))["items"]]


async def test_error_after_the_write() -> None:
    async with injecting(on_config_maps({"error": {"code": 504, "afterWrite": True}}, first=2)) as api:
        (await api.ask("POST", PATH, config_map("a"))).expect(504)
        assert (await api.get("configmaps", "a"))["metadata"]["name"] == "a"  # a read is no write
        (await api.ask("POST", PATH, config_map("a"))).expect(504)  # what would have been AlreadyExists
        assert (await api.ask("POST", PATH, config_map("a"))).status == 409


@pytest.mark.parametrize("after_write", [True, False])
async def test_reply_is_lost(after_write: bool) -> None:
    async with injecting(on_config_maps({"loseReply": {"afterWrite": after_write}}, first=1)) as api:
        with pytest.raises(httpx.RemoteProtocolError):
            await api.ask("POST", PATH, config_map("a"))
        assert (await api.ask("GET", f"{PATH}/a")).status == (200 if after_write else 404)


async def test_stream_ends_without_a_reply() -> None:
    async with injecting(on_config_maps({"loseReply": {}}, first=1)) as api, connection(api) as http2:
        lost = await http2.request(PATH)
        await lost.wait_over()
        assert isinstance(lost.broken, FramingError) and not lost.status
        assert (await http2.watch(PATH)).status == 200  # on the same connection


async def test_delays_add_up(autojump_clock: MockClock) -> None:
    rules = [
        on_config_maps({"delay": {"seconds": 20}}, name="long"),
        on_config_maps({"delay": {"seconds": 1, "jitterSeconds": 1}}, every=2),
    ]
    async with injecting(*rules) as api:
        api.client.timeout = httpx.Timeout(None)
        times = []
        for _ in range(4):
            began = trio.current_time()
            response = await api.ask("GET", PATH)
            times.append(trio.current_time() - began)
            assert response.status == 200
        assert fault_of(response) == "long,1"
        missing = await api.ask("GET", f"{PATH}/missing")
        assert (missing.status, fault_of(missing)) == (404, "long")
        assert 20 <= times[0] < 20.5 and 20 <= times[2] < 20.5
        assert 21 <= times[1] < 22.5 and 21 <= times[3] < 22.5


async def test_delayed_requests_keep_no_seat(autojump_clock: MockClock) -> None:
    """With one seat for all: a delayed request blocks no others, and takes the seat again when it continues."""
    delay, everybody = on_config_maps({"delay": {"seconds": 20}}), Extensions(authorizers=[AlwaysAllow()])
    one_seat = {"enable_priority_and_fairness": False, "max_requests_inflight": 1}
    async with injecting(delay, extensions=everybody, **one_seat) as api:
        autojump_clock.autojump_threshold = math.inf
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(api.ask, "GET", PATH, token=ALICE))
            with trio.fail_after(60):
                while not (await api.ask("GET", FAULTS)).expect(200)["rules"][0]["applied"]:
                    pass
            for _ in range(3):
                assert (await api.ask("GET", "/api/v1/secrets", token=ALICE)).status == 200
            autojump_clock.jump(20)
        autojump_clock.autojump_threshold = 0
        assert await seats_taken(api) == (4, 0)  # each counts once


async def seats_taken(api: Api) -> tuple[float, float]:
    """How many requests have started, and how many seats are in use."""
    scraped = (await api.ask("GET", "/metrics")).text
    labels = 'flow_schema="readOnly",priority_level="readOnly"'
    started = re.search(rf"dispatched_requests_total{{{labels}}} (\S+)", scraped)
    used = re.search(r'concurrency_in_use{priority_level="readOnly"} (\S+)', scraped)
    assert started is not None and used is not None
    return float(started[1]), float(used[1])


async def test_only_the_matching_client_is_concerned() -> None:
    rule = {"match": {"user": "alice"}, "fault": {"error": {"code": 503}}}
    async with injecting(rule) as api:
        await api.create("configmaps", config_map("a"))
        assert (await api.ask("GET", PATH, token=ALICE)).status == 403  # access comes first


async def test_health_discovery_and_controls_are_never_concerned() -> None:
    async with injecting({"fault": {"error": {"code": 500}}}) as api:
        for path in ("/livez", "/readyz", "/metrics", "/api/v1", "/apis", "/version", FAULTS):
            assert (await api.ask("GET", path)).status == 200
        assert (await api.ask("GET", PATH)).status == 500


async def test_applied_faults_are_visible(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="rewound.testing.faults")
    async with injecting(on_config_maps({"error": {"code": 503}}, name="down", every=2)) as api:
        for _ in range(4):
            await api.ask("GET", PATH)
        assert (
            'rewound_faults_injected_total{fault="error",rule="down"} 2'
            in (await api.ask("GET", "/metrics")).text
        )
        shown = (await api.ask("GET", FAULTS)).expect(200)
        assert shown == {
            "seed": 0,
            "rules": [
                {
                    "name": "down",
                    "match": {"resources": ["configmaps"]},
                    "fault": {"error": {"code": 503}},
                    "every": 2,
                    "matched": 4,
                    "applied": 2,
                }
            ],
        }
    lines = [one.getMessage() for one in caplog.records if one.name.startswith("rewound.testing.faults")]
    assert (
        lines[0] == f"fault rule down (error) applies to list {PATH} of admin (test/1), its request number 2"
    )


async def test_audit_log_names_the_rule(folder: Path) -> None:
    policy = folder / "policy.yaml"
    policy.write_text("apiVersion: audit.cluster.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n")
    log = folder / "audit.log"
    audit = AuditSettings(audit_policy_file=policy, audit_log_path=str(log), audit_log_mode="blocking")
    async with injecting(on_config_maps({"conflict": {}}, name="conflicts"), audit=audit) as api:
        await api.ask("PUT", f"{PATH}/a", config_map("a"))
    found = [
        event
        for event in map(json.loads, log.read_text().splitlines())
        if event["verb"] == "update" and event["stage"] == "ResponseComplete"
    ]
    assert found[0]["annotations"]["faults.rewound.cluster.io/rule"] == "conflicts"


async def test_rules_are_removed() -> None:
    async with injecting(on_config_maps({"error": {"code": 503}})) as api:
        assert (await api.ask("GET", PATH)).status == 503
        assert (await api.ask("DELETE", FAULTS)).expect(200) == {"seed": 0, "rules": []}
        assert (await api.ask("GET", PATH)).status == 200


async def test_wrong_rules_are_refused_and_change_nothing() -> None:
    async with injecting(on_config_maps({"error": {"code": 503}})) as api:
        refused = await api.ask("POST", FAULTS, {"rules": [{"fault": {"conflict": {}}, "twice": 1}]})
        assert refused.expect(400)["message"] == (
            "fault rules: rules[0].twice: is not a field; known here are name, match, fault, probability, every, "
            "first, after"
        )
        large = await api.ask("POST", FAULTS, {"rules": [], "more": "x" * (64 << 10)})
        assert large.expect(400)["message"] == "fault rules: more than 64 KiB"
        assert (await api.ask("GET", PATH)).status == 503


async def test_rules_come_from_a_file(folder: Path) -> None:
    file = folder / "faults.yaml"
    file.write_text("seed: 3\nrules:\n- match: {resources: [configmaps]}\n  fault: {error: {code: 500}}\n")
    async with served(faults=file) as api:
        assert (await api.ask("GET", PATH)).status == 500
        assert (await api.ask("GET", FAULTS)).status == 404  # it has no test controls


async def test_wrong_file_fails_the_start(folder: Path) -> None:
    file = folder / "faults.yaml"
    file.write_text("rules: [{fault: {explode: {}}}]")
    with pytest.raises(BaseExceptionGroup) as caught:
        async with served(faults=file):
            pass  # pragma: no cover
    assert caught.group_contains(SettingsError, match=r"rules\[0\].fault.explode: is not a field")


async def test_others_may_not_change_the_rules() -> None:
    async with injecting() as api:
        for method in ("GET", "POST", "DELETE"):
            assert (await api.ask(method, FAULTS, {"rules": []}, token=ALICE)).status == 403
