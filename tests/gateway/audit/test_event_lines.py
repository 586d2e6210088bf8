"""Lines of events without bodies: fast and general form are the JSON of the same document, whatever clients send."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest

from actors.access.attributes import Attributes
from actors.access.authorize import Decision, Verdict
from actors.identity import User
from actors.names import CLUSTER
from gateway.audit.audit_log import Attached, AuditLog
from gateway.audit.backends.losses import Losses
from gateway.audit.event import EventFormat, events_of
from gateway.audit.policy import PendingList
from gateway.audit.policy_file import parse_policy
from gateway.audit.record import AuditRecord, Event, Pending
from gateway.requests.exchange import ObjectIdentity
from gateway.requests.request import Peer, Request
from tests.actors.object_store import ManualClock
from tests.gateway.audit.auditing import rules

ODD = [
    "plain",
    "",
    'quo"te',
    "back\\slash",
    "line\nend",
    "tab\t\x00",
    "grüße",
    "名前",
    "\u2028",
    "\U0001f600",
    "</s>",
]
POLICIES = [
    rules("level: Metadata"),
    rules("level: Metadata, verbs: [get, watch]", "level: Request"),
    rules("level: Metadata", more="omitStages: [RequestReceived]\n"),
]


class Kept:
    """A backend that keeps events, or the records that stand for them."""

    losses: Sequence[Losses] = ()

    def __init__(self, *, takes_records: bool = False) -> None:
        self.kept = PendingList(1_000_000)
        self.put = self.kept.append
        self.pending = self.kept if takes_records else None

    @property
    def events(self) -> int:
        return len(self.kept)

    async def store(self, event: Event) -> bool:
        raise NotImplementedError

    async def run(self) -> None:
        raise NotImplementedError


def random_request(random: Random) -> Request:
    odd = random.choice
    headers = {b"user-agent": odd(ODD).encode() * odd([1, 1, 400])}
    if random.random() < 0.3:
        headers[b"audit-id"] = odd(ODD).encode()
    if random.random() < 0.3:
        headers[b"x-forwarded-for"] = odd([b"10.1.1.1", b"::ffff:10.0.0.9, 10.2.2.2", b'"'])
    path = f"/api/v1/namespaces/default/things/{odd(ODD)}"
    return Request("GET", path, odd(["", f"a={odd(ODD)}"]), headers, b"", Peer(odd(["10.0.0.1", "fe80::1"])))


def random_attributes(random: Random, users: list[User], path: str) -> Attributes:
    user, verb = random.choice(users), random.choice(["get", "watch", "delete", 'od"d'])
    name = path.rpartition("/")[2]
    if name == "plain":
        return Attributes(user, verb, path=path, is_resource=False)
    return Attributes(user, verb, "", "v1", "things", "", "default", name, path)


def random_users(random: Random) -> list[User]:
    return [
        User(
            odd,
            random.choice(ODD),
            tuple(random.sample(ODD, 2)),
            ((odd, (random.choice(ODD),)),) * (odd != ""),
        )
        for odd in ODD
    ]


def play(log: AuditLog, clock: ManualClock, random: Random) -> None:
    """Requests whose stages overlap, so that lines of several requests alternate."""
    users = random_users(random)
    open_records: list[AuditRecord] = []
    for _ in range(300):
        clock.advance(random.randrange(700_000) / 1_000_000)
        request = random_request(random)
        record = log.received(request)
        attributes = random_attributes(random, users, request.path)
        if attributes.verb != 'od"d' or random.random() < 0.7:
            record.attributes(attributes)
            record.decided = Decision(random.choice(list(Verdict)), random.choice(ODD))
        record.respond(random.choice([200, 201, 204, 302, 404, 500]), 0)
        if random.random() < 0.1:
            record.impersonated = random.choice(users)
        if random.random() < 0.1:
            record.written = ObjectIdentity("", random.choice(ODD), random.choice(ODD), "7")
        if random.random() < 0.1:
            record.annotate(random.choice(ODD), random.choice(ODD))
        if random.random() < 0.1 and record.attributes_.verb:
            record.panic(ValueError("secret"))
        if random.random() < 0.4:
            record.complete()  # nothing came between its events
            continue
        open_records.append(record)
        if random.random() < 0.6:
            open_records.pop(random.randrange(len(open_records))).complete()
    for record in open_records:
        record.cut_off()


def moment(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds // 1000, 1_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:06d}Z"


def user_document(user: User) -> dict[str, Any]:
    fields = {"username": user.name, "uid": user.uid, "groups": user.groups, "extra": dict(user.extra)}
    return {key: value for key, value in fields.items() if value}


def document(event: Event) -> dict[str, Any]:
    """What the line shows, from the record alone."""
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
    annotations = dict(record.annotations or {})
    if record.decided is not None:
        own = {
            "decision": "allow" if record.decided.allowed else "forbid",
            "reason": record.decided.reason,
        }
        annotations = {f"authorization.cluster.io/{key}": value for key, value in own.items()} | annotations
    if annotations and not first:
        found["annotations"] = dict(sorted(annotations.items()))
    return found


def object_document(event: Event) -> dict[str, Any]:
    record, stage, _, _ = event
    attributes = record.attributes_
    written = record.written if stage != "RequestReceived" else None
    fields = {
        "resource": attributes.resource,
        "namespace": attributes.namespace,
        "name": attributes.name or (written.name if written is not None else ""),
        "uid": written.uid if written is not None else "",
        "apiVersion": attributes.version,
        "resourceVersion": "7" if written is not None else "",
        "subresource": attributes.subresource,
    }
    return {key: value for key, value in fields.items() if value}


def status_document(event: Event) -> dict[str, Any]:
    _, stage, _, status = event
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
    return {"metadata": {}, "code": status}


def played(policy: str, *, takes_records: bool) -> list[Pending]:
    """What a backend got."""
    backend, clock = Kept(takes_records=takes_records), ManualClock()
    log = AuditLog(parse_policy(policy.encode(), CLUSTER), [Attached(backend)], clock)
    play(log, clock, Random(11))
    return backend.kept


def of_resources(events: list[Event]) -> list[Event]:
    return [event for event in events if event[0].attributes_.resource or event[1] != "ResponseStarted"]


def expected_lines(events: list[Event]) -> list[bytes]:
    documents = [document(event) for event in events]
    return [json.dumps(one, ensure_ascii=False, separators=(",", ":")).encode() for one in documents]


@pytest.mark.parametrize("policy", POLICIES)
def test_lines_are_the_json_of_what_records_hold(policy: str) -> None:
    events = of_resources(events_of(played(policy, takes_records=False)))
    assert {stage for _, stage, _, _ in events} >= {"ResponseComplete", "Panic"}
    expected = expected_lines(events)
    general = EventFormat(CLUSTER)
    assert [general.line(event) for event in events] == expected
    for event in events:
        event[0].shown = None
    fast = EventFormat(CLUSTER)
    assert fast.lines(events[:7]) + fast.lines(events[7:]) == b"".join([line + b"\n" for line in expected])


def facts(event: Event) -> tuple[object, ...]:
    record, *rest = event
    return record.target, record.treatment.level, *rest


@pytest.mark.parametrize("policy", POLICIES)
def test_records_stand_for_the_same_events_in_the_same_order(policy: str) -> None:
    pending = played(policy, takes_records=True)
    records = [one for one in pending if isinstance(one, AuditRecord)]
    assert bool(records) == ("omitStages" not in policy)
    assert {bool(one.completed_at) for one in records} == ({True, False} if records else set())
    events = events_of(played(policy, takes_records=False))
    assert [facts(event) for event in events_of(pending)] == [facts(event) for event in events]


@pytest.mark.parametrize("policy", POLICIES)
def test_lines_of_records_are_those_of_their_events(policy: str) -> None:
    pending = [one for one in played(policy, takes_records=True) if of_resources(events_of([one]))]
    expected = b"".join([line + b"\n" for line in expected_lines(events_of(pending))])
    made = EventFormat(CLUSTER)
    assert made.lines(pending[:40]) + made.lines(pending[40:]) == expected
