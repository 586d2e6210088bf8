"""Random requests of all kinds through an audit log, with texts that JSON has to escape."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import orjson

from rewound.actors.access.authorize import Attributes, Decision, Verdict
from rewound.actors.identity import User
from rewound.actors.names import CLUSTER
from rewound.gateway.audit.audit_log import Attached, AuditLog
from rewound.gateway.audit.backends.bounds import Losses
from rewound.gateway.audit.policy import PendingList, parse_policy
from rewound.gateway.audit.record import AuditRecord, Event, Pending
from rewound.gateway.exchange import SentNames
from rewound.gateway.message import Peer, Request, Response
from tests.actors.object_store import ManualClock

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
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", 'od"d')
WITHOUT_NAME = ("list", "create", "deletecollection")
KINDS = [("", "v1", "things", ""), ("apps", "v1", "sets", "scale"), ("ex.io", "v2", 'o"dd', ""), ("",) * 4]


class Kept:
    """A backend that keeps events, or the records from which they are made."""

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


def played(policy: str, *, takes_records: bool, seed: int = 11) -> list[Pending]:
    """What a backend got."""
    backend, clock = Kept(takes_records=takes_records), ManualClock()
    log = AuditLog(parse_policy(policy.encode(), CLUSTER), [Attached(backend)], clock)
    play(log, clock, Random(seed))
    return backend.kept


def play(log: AuditLog, clock: ManualClock, random: Random) -> None:
    """Requests whose stages overlap, so that lines of several requests alternate."""
    users = _users(random)
    open_records: list[AuditRecord] = []
    for _ in range(800):
        clock.advance(random.randrange(700_000) / 1_000_000)
        record = _start(log, users, random)
        _happen(record, users, random)
        if random.random() < 0.4:
            record.complete()  # no other event came between its events
            continue
        open_records.append(record)
        if random.random() < 0.6:
            open_records.pop(random.randrange(len(open_records))).complete()
    for record in open_records:
        record.cut_off()


def _users(random: Random) -> list[User]:
    return [
        User(
            odd,
            random.choice(ODD),
            tuple(random.sample(ODD, 2)),
            ((odd, (random.choice(ODD),)),) * (odd != ""),
        )
        for odd in ODD
    ]


def _start(log: AuditLog, users: list[User], random: Random) -> AuditRecord:
    """A request that arrived, usually with a user who is allowed to make it."""
    odd, verb = random.choice, random.choice(VERBS)
    namespace, name = odd(["", "default"]), "" if verb in WITHOUT_NAME and random.random() < 0.8 else odd(ODD)
    group, version, resource, subresource = odd(KINDS)
    headers = {b"user-agent": odd(ODD).encode() * odd([1, 1, 400])}
    if random.random() < 0.2:
        headers[b"audit-id"] = odd(ODD).encode()
    if random.random() < 0.2:
        headers[b"x-forwarded-for"] = odd([b"10.1.1.1", b"::ffff:10.0.0.9, 10.2.2.2", b'"'])
    path = f"/apis/{group}/{version}/{namespace}/{resource}/{name}"
    query = odd(["", "", "dryRun=All", f"fieldManager={odd(ODD)}"])
    request = Request("GET", path, query, headers, b"", Peer(odd(["10.0.0.1", "fe80::1"])))
    record = log.received(request)
    if random.random() < 0.05:
        record.annotate(odd(ODD), odd(ODD))  # by authentication
    if verb == 'od"d' and random.random() < 0.3:
        return record
    attributes = Attributes(
        odd(users), verb, group, version, resource, subresource, namespace, name, path, bool(resource)
    )
    record.attributes(attributes)
    if random.random() < 0.95:
        reason = odd(ODD)
        record.decided = Decision(odd([*Verdict, *[Verdict.ALLOW] * 9]), reason)
    return record


def _happen(record: AuditRecord, users: list[User], random: Random) -> None:
    """What the server learns about the request, and how it ends."""
    odd, attributes = random.choice, record.attributes_
    status = odd([200, 200, 200, 201, 204, 302, 404, 500])
    if random.random() < 0.08:
        record.impersonated = odd(users)
    if attributes.verb in ("create", "update", "patch") and random.random() < 0.9:
        name = odd(ODD) if random.random() < 0.8 else odd(["", None, 5])
        rarely = odd(ODD) if random.random() < 0.3 else ""
        record.written = SentNames(odd(["", None, "default", 7]), name, rarely, odd(["", None, "7", ["7"]]))
    if random.random() < 0.5:
        record.annotations = {}  # what admission may add to
    if random.random() < 0.1:
        record.annotate(odd(ODD), odd(ODD))
    record.response = Response(status, _body(attributes, status, random))
    record.respond(status, len(record.response.body))
    if random.random() < 0.05 and attributes.verb:
        record.panic(ValueError("secret"))


def _body(attributes: Attributes, status: int, random: Random) -> bytes:
    if status >= 400 or (attributes.verb == "delete" and random.random() < 0.5):
        text = random.choice(ODD)
        found = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "message": text, "code": status}
        return orjson.dumps(found | {"status": "Failure", "reason": "Odd", "details": {"name": text}})
    return orjson.dumps({"kind": "Thing", "metadata": {"name": f"generated-{random.choice(ODD)}"}})
