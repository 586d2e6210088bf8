"""Lines of events without bodies: the fast and the general encoder write JSON of the same document, whatever clients
send.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from rewound.actors.identity import User
from rewound.actors.names import CLUSTER
from rewound.gateway.audit.event import EventFormat, events_of
from rewound.gateway.audit.record import AuditRecord, Event
from rewound.journal.escapes import escaped
from tests.gateway.audit.auditing import rules
from tests.gateway.audit.random_requests import VERBS, played

POLICIES = [
    rules("level: Metadata"),
    rules("level: Metadata, verbs: [get, watch, create]", "level: Request"),
    rules("level: Metadata", more="omitStages: [RequestReceived]\n"),
    rules("level: Metadata", more="omitStages: [ResponseComplete]\n"),
    rules("level: Metadata", more="omitStages: [Panic]\n"),
]


def moment(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds // 1000, 1_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:06d}Z"


def user_document(user: User) -> dict[str, Any]:
    fields = {"username": user.name, "uid": user.uid, "groups": user.groups, "extra": dict(user.extra)}
    return {key: value for key, value in fields.items() if value}


def document(event: Event) -> dict[str, Any]:
    """What the line shows, computed from the record alone."""
    record, stage, at, _ = event
    attributes, first = record.attributes_, stage == "RequestReceived"
    found: dict[str, Any] = {
        "kind": "Event",
        "apiVersion": "audit.cluster.io/v1",
        "level": ["None", "Metadata", "Request"][record.treatment.level],
        "auditID": record.audit_id.decode(),
        "stage": stage,
        "requestURI": f"{record.path}?{record.query}" if record.query else record.path,
        "verb": attributes.verb,
        "user": user_document(attributes.user),
    }
    if record.impersonated is not None and not first:
        found["impersonatedUser"] = user_document(record.impersonated)
    claimed = {b"10.1.1.1": ["10.1.1.1"], b"::ffff:10.0.0.9, 10.2.2.2": ["10.0.0.9", "10.2.2.2"]}
    found["sourceIPs"] = [*claimed.get(record.client.forwarded_for or b"", []), record.address]
    if agent := record.client.agent:
        agent = agent if len(agent) <= 1024 else agent[:1024] + b"...TRUNCATED"
        found["userAgent"] = agent.decode(errors="replace")
    if attributes.is_resource:
        found["objectRef"] = object_document(event)
    if not first:
        found["responseStatus"] = status_document(event)
    found["requestReceivedTimestamp"] = moment(record.received_at)
    found["stageTimestamp"] = moment(at)
    annotations = dict((record.first_annotations if first else record.annotations) or {})
    if record.decided is not None and not first:
        own = {
            "decision": "allow" if record.decided.allowed else "forbid",
            "reason": record.decided.reason,
        }
        annotations = {f"authorization.cluster.io/{key}": value for key, value in own.items()} | annotations
    if annotations:
        found["annotations"] = dict(sorted(annotations.items()))
    return found


def object_document(event: Event) -> dict[str, Any]:
    record, stage, _, _ = event
    attributes = record.attributes_
    sent = record.written if record.written is not None and stage != "RequestReceived" else ("",) * 4
    namespace, name, uid, version = [one if isinstance(one, str) else "" for one in sent]
    fields = {
        "resource": attributes.resource,
        "namespace": attributes.namespace or namespace,
        "name": attributes.name or name or generated_name(event),
        "uid": uid,
        "apiGroup": attributes.group,
        "apiVersion": attributes.version,
        "resourceVersion": version,
        "subresource": attributes.subresource,
    }
    return {key: value for key, value in fields.items() if value}


def generated_name(event: Event) -> str:
    record, stage, _, _ = event
    if record.attributes_.verb != "create" or stage != "ResponseComplete" or record.response_body is None:
        return ""
    name: str = orjson.loads(record.response_body)["metadata"].get("name", "")
    return name


def status_document(event: Event) -> dict[str, Any]:
    record, stage, _, status = event
    if not status:
        return {"metadata": {}, "status": "Success", "message": "Connection closed early", "code": 200}
    if stage == "Panic":
        message = "APIServer panic'd: ValueError"
        return {
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": "InternalError",
            "code": 500,
        }
    shown: dict[str, Any] = {"metadata": {}}
    if record.response_body is not None:
        body = orjson.loads(record.response_body)
        if body["kind"] == "Status":
            shown |= {key: body[key] for key in ("status", "message", "reason", "details") if body[key]}
    return {**shown, "code": status}


def of_resources(events: list[Event]) -> list[Event]:
    """Without requests that failed to authenticate: these are tested with a server."""
    return [event for event in events if event.stage != "ResponseStarted"]


def expected_lines(events: list[Event]) -> list[bytes]:
    documents = [document(event) for event in events]
    return [escaped(json.dumps(one, ensure_ascii=False, separators=(",", ":")).encode()) for one in documents]


def short(events: list[Event]) -> list[Event]:
    """The lines that a backend writes at once."""
    return [event for event in events if event.stage == "RequestReceived" or not event.record.is_long]


@pytest.mark.parametrize("policy", POLICIES)
def test_lines_are_the_json_of_what_records_hold(policy: str) -> None:
    events = of_resources(events_of(played(policy, takes_records=False)))
    assert {stage for _, stage, _, _ in events} & {"ResponseComplete", "RequestReceived"}
    general = EventFormat(CLUSTER)
    assert [general.line(event) for event in events] == expected_lines(events)
    events, fast = short(events), EventFormat(CLUSTER)
    expected = [line + b"\n" for line in expected_lines(events)]
    assert fast.lines(events[:7]) + fast.lines(events[7:]) == b"".join(expected)


def facts(event: Event) -> tuple[object, ...]:
    record, *rest = event
    return record.target, record.treatment.level, *rest


@pytest.mark.parametrize("policy", POLICIES)
def test_records_stand_for_the_same_events_in_the_same_order(policy: str) -> None:
    pending = played(policy, takes_records=True)
    records = [one for one in pending if isinstance(one, AuditRecord)]
    completed = {bool(one.completed_at) for one in records}
    if "RequestReceived" in policy or "Panic" in policy:
        assert not records
    else:
        assert completed == ({False} if "ResponseComplete" in policy else {True, False})
    events = events_of(played(policy, takes_records=False))
    assert [facts(event) for event in events_of(pending)] == [facts(event) for event in events]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))])
def test_lines_of_records_are_those_of_their_events(policy: str, seed: int) -> None:
    pending = [
        one for one in played(policy, takes_records=True, seed=seed) if short(of_resources(events_of([one])))
    ]
    events = events_of(pending)
    expected = b"".join([line + b"\n" for line in expected_lines(events)])
    made = EventFormat(CLUSTER)
    assert made.lines(pending[:40]) + made.lines(pending[40:]) == expected
    assert b"".join([made.line(event) + b"\n" for event in events]) == expected
    assert set(VERBS) == {event.record.attributes_.verb for event in events}
