"""Modes of the audit log: batch never delays a request, blocking waits for its events, strict fails requests it
cannot log.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import orjson
import pytest
import trio
import trio.testing

from rewound.actors.access.authorize import Attributes, Decision, Verdict
from rewound.actors.identity import User
from rewound.actors.names import CLUSTER
from rewound.gateway.audit.audit_log import Attached, AuditLog
from rewound.gateway.audit.backends.lines import Lines
from rewound.gateway.audit.backends.log_backend import LogBackend
from rewound.gateway.audit.policy import REQUEST_RECEIVED, parse_policy
from rewound.gateway.audit.record import AuditRecord, Event
from rewound.gateway.exchange import both, observe, observing
from rewound.gateway.message import Peer, Request
from tests.actors.object_store import ManualClock
from tests.gateway.api import config_map
from tests.gateway.audit.auditing import PATH, audited, rules, watch_briefly
from tests.gateway.observing import Observer

METADATA = rules("level: Metadata")
FULL = {"audit_log_path": "/dev/full"}


def metric(text: str, name: str) -> float:
    [value] = [line.rpartition(" ")[2] for line in text.splitlines() if line.startswith(name)]
    return float(value)


async def test_full_disk_does_not_stop_the_api_and_losses_are_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with audited(METADATA, FULL) as audit:
        for number in range(5):
            await audit.api.create("configmaps", config_map(f"a{number}"))
        lost = 0.0
        while lost < 10:
            metrics = (await audit.api.ask("GET", "/metrics")).text
            lost = metric(metrics, 'apiserver_audit_error_total{plugin="log"}')
    assert metric(metrics, "apiserver_audit_event_total ") >= 10
    assert metric(metrics, 'apiserver_audit_level_total{level="Metadata"}') >= 5
    assert metric(metrics, "apiserver_audit_requests_rejected_total ") == 0
    assert 1 <= caplog.text.count("No space left on device") < lost  # one line in ten seconds


@pytest.mark.parametrize("mode", ["blocking", "blocking-strict"])
async def test_blocking_mode_has_written_the_events_when_the_response_arrives(mode: str) -> None:
    async with audited(METADATA, {"audit_log_mode": mode}) as audit:
        await audit.api.ask("POST", PATH, config_map("a"))
        assert audit.stages == ["RequestReceived", "ResponseComplete"]
        await audit.api.ask("GET", PATH, token="nobody")
        assert audit.events[-1]["responseStatus"]["code"] == 401
        await watch_briefly(audit.api, PATH)
        await audit.api.finish()
        assert audit.stages[3:] == ["RequestReceived", "ResponseStarted", "ResponseComplete"]


async def test_blocking_mode_serves_without_a_disk() -> None:
    async with audited(METADATA, {**FULL, "audit_log_mode": "blocking"}) as audit:
        assert (await audit.api.ask("POST", PATH, config_map("a"))).status == 201


async def test_strict_mode_refuses_what_it_cannot_record() -> None:
    policy = rules("level: None, verbs: [get, list]", "level: Metadata")
    async with audited(policy, {**FULL, "audit_log_mode": "blocking-strict"}) as audit:
        refused = await audit.api.ask("POST", PATH, config_map("a"))
        read = await audit.api.ask("GET", f"{PATH}/a")
        metrics = (await audit.api.ask("GET", "/metrics")).text
    assert (refused.status, refused.text) == (
        500,
        f'Internal Server Error: "{PATH}": failed to store audit event\n',
    )
    assert read.status == 404
    assert metric(metrics, "apiserver_audit_requests_rejected_total ") == 1


async def test_deleted_folder_is_created_again() -> None:
    async with audited(METADATA, {"audit_log_mode": "blocking"}) as audit:
        await audit.api.ask("GET", "/version")
        audit.path.unlink()
        audit.path.parent.rmdir()
        await audit.api.ask("GET", "/version")
        assert [event["requestURI"] for event in audit.events] == ["/version", "/version"]


async def test_legacy_format() -> None:
    async with audited(METADATA, {"audit_log_format": "legacy", "audit_log_mode": "blocking"}) as audit:
        response = await audit.api.ask("GET", f"{PATH}/a")
        received, complete = [line for line in audit.lines() if f"{PATH}/a" in line]
    moment, _, fields = complete.partition(" AUDIT: ")
    assert fields == (
        f'id="{response.headers["audit-id"]}" stage="ResponseComplete" ip="127.0.0.1" method="get" user="admin" '
        'groups="system:masters","system:authenticated" as="<self>" asgroups=<lookup> user-agent="test/1" '
        f'namespace="default" uri="{PATH}/a" response="404"'
    )
    assert moment.endswith("Z")
    assert 'stage="RequestReceived"' in received and received.endswith('response="<deferred>"')


async def test_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    async with audited(METADATA, {"audit_log_path": "-", "audit_log_mode": "blocking"}) as audit:
        await audit.api.ask("GET", "/version")
    assert '"requestURI":"/version"' in capfd.readouterr().out


async def test_large_events_lose_their_objects_if_truncated() -> None:
    settings = {
        "audit_log_truncate_enabled": True,
        "audit_log_truncate_max_event_size": 2000,
        "audit_log_truncate_max_batch_size": 4000,
    }
    async with audited(rules("level: RequestResponse"), settings) as audit:
        await audit.api.ask("POST", PATH, config_map("a", key="x" * 2000))
        await audit.api.ask("GET", f"{PATH}/{'y' * 2500}")
        await audit.api.finish()
        event = audit.one()
    assert "requestObject" not in event and "responseObject" not in event
    assert event["annotations"]["audit.cluster.io/truncated"] == "true"


class SlowOutput:
    """Writes nothing until the test lets it."""

    def __init__(self) -> None:
        self.may_write = threading.Event()
        self.lines: list[bytes] = []

    def is_quick(self, _size: int) -> bool:
        return False

    def write(self, data: bytes) -> None:
        self.may_write.wait(60)
        self.lines += data.splitlines()

    def close(self) -> None: ...


def audit_log(output: SlowOutput, *, blocking: bool = False, **changed: Any) -> AuditLog:
    limits: dict[str, Any] = {"buffer_size": 10, "max_size": 5, "max_wait": 0.0, **changed}
    backend = LogBackend(output, Lines(CLUSTER), **limits)
    return AuditLog(parse_policy(METADATA.encode(), CLUSTER), [Attached(backend, blocking)], ManualClock())


def receive(log: AuditLog) -> AuditRecord:
    """A request that has been authenticated; returns its record."""
    request = Request("GET", "/version", "", {}, b"", Peer("10.0.0.1"))
    observe(log, request).attributes(Attributes(User("alice"), "get", path="/version", is_resource=False))
    record = request.exchange
    assert isinstance(record, AuditRecord)
    return record


async def test_queue_is_bounded_and_what_is_queued_is_written_at_the_end() -> None:
    output = SlowOutput()
    log = audit_log(output)
    async with trio.open_nursery() as nursery:
        for _ in range(30):
            receive(log)
        assert log.statistics().errors == {"log": 0, "buffered": 20, "truncate": 0}
        await nursery.start(log.run)
        output.may_write.set()
        nursery.cancel_scope.cancel()
    assert len(output.lines) == 10


async def test_impersonated_user_and_annotations_are_shown_from_the_second_event_on(tmp_path: Path) -> None:
    output = SlowOutput()
    log = audit_log(output)
    async with trio.open_nursery() as nursery:
        await nursery.start(log.run)
        record = receive(log)
        record.impersonated = User("bob", "7", ("ops",), (("scopes", ("a", "b")),))
        record.annotate("example.com/checked", "yes")
        record.annotate("example.com/checked", "no")
        record.respond(200, 0)
        record.complete()
        output.may_write.set()
        nursery.cancel_scope.cancel()
    first, second = output.lines
    assert b"impersonatedUser" not in first and b"annotations" not in first
    assert (
        b'"impersonatedUser":{"username":"bob","uid":"7","groups":["ops"],"extra":{"scopes":["a","b"]}}'
        in second
    )
    assert b'"annotations":{"example.com/checked":"yes"}' in second


class WhoWrites(SlowOutput):
    """Records which threads write."""

    def __init__(self, *, is_quick: bool) -> None:
        super().__init__()
        self._is_quick = is_quick
        self.threads: list[str] = []

    def is_quick(self, _size: int) -> bool:
        return self._is_quick

    def write(self, data: bytes) -> None:
        self.threads.append(threading.current_thread().name)
        self.lines += data.splitlines()


async def stored_by(output: WhoWrites) -> list[str]:
    log = audit_log(output, blocking=True)
    async with trio.open_nursery() as nursery:
        await nursery.start(log.run)
        for number in range(3):
            record = receive(log)
            assert record.stored is not None
            await record.stored()
            assert len(output.lines) == number + 1
        nursery.cancel_scope.cancel()
    return output.threads


async def test_blocking_mode_leaves_what_is_not_quick_to_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    here = threading.current_thread().name
    never = float("inf")  # on a busy machine any write may take long
    monkeypatch.setattr("rewound.gateway.audit.backends.log_backend._SLOW", never)
    assert await stored_by(WhoWrites(is_quick=True)) == [here] * 3
    assert await stored_by(WhoWrites(is_quick=False)) == ["audit log"] * 3
    monkeypatch.setattr(
        "rewound.gateway.audit.backends.log_backend._SLOW", -1.0
    )  # every write counts as slow
    monkeypatch.setattr("rewound.gateway.audit.backends.log_backend._SLOW_FOR", 3600.0)
    assert await stored_by(WhoWrites(is_quick=True)) == [here, "audit log", "audit log"]


async def test_blocking_mode_leaves_large_events_of_others_to_the_thread() -> None:
    """A short event does not cause a queued large one to be formatted in the event loop."""
    output, unused = WhoWrites(is_quick=True), audit_log(SlowOutput())
    backend = LogBackend(output, Lines(CLUSTER), buffer_size=10, max_size=5, max_wait=3600.0)
    large, short = receive(unused), receive(unused)
    large.is_long, large.request_body = True, b'"' + b"x" * 100_000 + b'"'
    async with trio.open_nursery() as nursery:
        nursery.start_soon(backend.run)
        await trio.testing.wait_all_tasks_blocked()
        backend.put(Event(large, REQUEST_RECEIVED, 0, 0))
        assert await backend.store(Event(short, REQUEST_RECEIVED, 0, 0))
        nursery.cancel_scope.cancel()
    assert len(output.lines) == 2
    assert set(output.threads) == {"audit log"}


class CountingOutput(SlowOutput):
    """Counts how often the thread writes."""

    writes = 0

    def write(self, data: bytes) -> None:
        self.writes += 1
        super().write(data)


async def test_thread_does_not_wake_for_every_few_events() -> None:
    output = CountingOutput()
    output.may_write.set()
    log = audit_log(output, buffer_size=10_000, max_size=64, max_wait=3600.0)
    async with trio.open_nursery() as nursery:
        await nursery.start(log.run)
        for _ in range(2_000):
            receive(log)
        nursery.cancel_scope.cancel()
    assert len(output.lines) == 2_000
    assert output.writes <= 2


class AwaitedOutput(SlowOutput):
    """Sets an event after ten lines."""

    def __init__(self) -> None:
        super().__init__()
        self.may_write.set()
        self.has_ten = threading.Event()

    def write(self, data: bytes) -> None:
        super().write(data)
        if len(self.lines) == 10:
            self.has_ten.set()


async def test_thread_writes_as_soon_as_a_quarter_of_the_buffer_is_used() -> None:
    output = AwaitedOutput()
    log = audit_log(output, buffer_size=40, max_size=5, max_wait=3600.0)
    async with trio.open_nursery() as nursery:
        await nursery.start(log.run)
        for _ in range(10):
            receive(log)
        await trio.to_thread.run_sync(output.has_ten.wait, 60)
        nursery.cancel_scope.cancel()


class PromptOutput(SlowOutput):
    """Reports every write."""

    def __init__(self) -> None:
        super().__init__()
        self.may_write.set()
        self.written = threading.Semaphore(0)

    def write(self, data: bytes) -> None:
        super().write(data)
        self.written.release()

    async def wait(self) -> None:
        await trio.to_thread.run_sync(self.written.acquire)


def stages(output: SlowOutput) -> list[str]:
    return [orjson.loads(line)["stage"] for line in output.lines]


async def test_request_is_in_the_file_while_it_is_handled() -> None:
    output = PromptOutput()
    log = audit_log(output)
    async with trio.open_nursery() as nursery:
        await nursery.start(log.run)
        record = receive(log)
        await output.wait()
        assert stages(output) == ["RequestReceived"]
        record.respond(200, 0)
        record.complete()
        await output.wait()
        nursery.cancel_scope.cancel()
    assert stages(output) == ["RequestReceived", "ResponseComplete"]


# of 40 events, the last ones of requests do not wait together with the first ones
@pytest.mark.parametrize("requests", [2, 40])
async def test_events_are_in_the_order_in_which_they_happened(requests: int) -> None:
    output = SlowOutput()
    log = audit_log(output, buffer_size=10_000, max_size=64)
    async with trio.open_nursery() as nursery:
        await nursery.start(log.run)
        records = [receive(log) for _ in range(requests)]
        for record in records:
            record.decided = Decision(Verdict.ALLOW, "")
            record.respond(200, 0)
            record.complete()
            record.complete()  # has no effect
            record.cut_off()
        output.may_write.set()
        nursery.cancel_scope.cancel()
    events = [orjson.loads(line) for line in output.lines]
    shown = [(event["stage"], event["auditID"]) for event in events]
    identities = [record.audit_id.decode() for record in records]
    stages = ("RequestReceived", "ResponseComplete")
    assert shown == [(stage, identity) for stage in stages for identity in identities]


async def test_another_observer_has_its_records_beside_those_of_the_log() -> None:
    output, observer = SlowOutput(), Observer()
    log = audit_log(output)
    observe_both = observing(both(log, observer))
    assert observe_both is not None
    async with trio.open_nursery() as nursery:
        await nursery.start(log.run)
        exchange = observe_both(Request("GET", "/version", "", {}, b"", Peer("10.0.0.1")))
        exchange.attributes(Attributes(User("alice"), "get", path="/version", is_resource=False))
        exchange.decided = Decision(Verdict.ALLOW, "because")
        exchange.respond(200, 7)
        exchange.complete()
        output.may_write.set()
        nursery.cancel_scope.cancel()
    [record] = observer.records
    assert record.stages == ["received", "attributes", "decision", "complete"]
    assert record.observed_decision == Decision(Verdict.ALLOW, "because")
    assert record.end == (200, 7, False)
    first, last = [orjson.loads(line) for line in output.lines]
    assert (first["stage"], last["stage"]) == ("RequestReceived", "ResponseComplete")
    assert last["annotations"]["authorization.cluster.io/reason"] == "because"
