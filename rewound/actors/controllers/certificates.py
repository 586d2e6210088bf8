"""The controllers of certificate signing requests: approve those of nodes, sign approved ones, delete old ones, also of
pods.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator, Sequence
from math import inf
from typing import ClassVar, Final, NamedTuple

import trio

from rewound.actors.access.authorize import Attributes, Decision
from rewound.actors.certificates.pki import CertificateError
from rewound.actors.certificates.signing import (
    CLIENT_USAGES,
    Authority,
    RequestFacts,
    Rule,
    UnfitRequest,
    expiry_of,
    facts_of,
    issue,
    node_client_refusal,
    signer_rules,
)
from rewound.actors.controllers.client import Client
from rewound.actors.controllers.context import ControllerContext
from rewound.actors.controllers.loop import RetryLater
from rewound.actors.controllers.stored_objects import Page, Position, take_pages
from rewound.actors.controllers.work_queue import WorkQueue
from rewound.actors.errors import Conflict, NotFound
from rewound.actors.identity import User
from rewound.actors.kinds.certificates import CONDITION, STATUS
from rewound.actors.kinds.values.times import micros_of
from rewound.actors.messages import DeleteOptions, Object
from rewound.actors.runtime.background_import import imported
from rewound.actors.store.document import decode, is_being_deleted
from rewound.journal.records import Event
from rewound.journal.view import View

# A request may wait for a permission for a day, and there may be many of them.
LONGEST_PAUSE: Final = 600.0
POD_REQUEST_SECONDS: Final = 900
# Threads that parse requests or sign, so that a flood of requests leaves CPU to others.
_MAX_THREADS: Final = 2


class PodRequestCleaning:
    """The cleaning controller of pod certificate requests: deletes them after 15 minutes, also pending ones."""

    name = "pod certificate request cleaning controller"

    def __init__(self, context: ControllerContext) -> None:
        type_name = f"podcertificaterequests.{context.names.group('certificates')}"
        self._journal, self._clock = context.journal, context.clock
        self._requests = context.journal.type_id(type_name)
        self.observed_types = frozenset({self._requests})
        self._definition = context.registry.current.storage(type_name)
        self._client = Client.of_controller(
            context.directory, context.write_contexts, context.names, "podcertificaterequestcleaner"
        )
        self.queue: WorkQueue[Position] = WorkQueue(namespace_of=lambda key: key[0])

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._requests and not event.previous and not event.removed:
                self.queue.add((event.namespace, event.name))

    async def catch_up(self) -> None:
        await take_pages(self._journal, self._requests, None, self._take)

    def _take(self, view: View, page: Page) -> None:
        for namespace, name, _ in page:
            self.queue.add((namespace, name))

    async def reconcile(self, key: Position) -> None:
        with self._journal.read() as view:
            row = view.get(self._requests, *key)
        if row is None or is_being_deleted(row.body):
            return
        metadata = decode(row.body)["metadata"]
        age = (self._clock.now() - micros_of(metadata["creationTimestamp"])) / 1_000_000
        if age < POD_REQUEST_SECONDS:
            self.queue.add_after(key, POD_REQUEST_SECONDS - age)
            return
        try:
            await self._client.delete(self._definition, *key, DeleteOptions(uid=metadata["uid"]))
        except (Conflict, NotFound):
            return


class RequestController:
    """Base of the controllers of certificate signing requests: the queue of names, reading and writing a request."""

    name: ClassVar[str]
    account: ClassVar[str]  # the service account that it writes as

    def __init__(self, context: ControllerContext) -> None:
        self._journal, self._clock, self._names = context.journal, context.clock, context.names
        self._rules = context.rules
        type_name = f"certificatesigningrequests.{context.names.group('certificates')}"
        self._requests = context.journal.type_id(type_name)
        self.observed_types: frozenset[int] | None = frozenset({self._requests})
        self._definition = context.registry.current.storage(type_name)
        self._client = Client.of_controller(
            context.directory, context.write_contexts, context.names, self.account
        )
        self.queue: WorkQueue[str] = WorkQueue(longest_pause=LONGEST_PAUSE)
        self._threads = trio.CapacityLimiter(_MAX_THREADS)

    def observe(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type_id == self._requests and not event.removed:
                self.queue.add(event.name)

    async def catch_up(self) -> None:
        await take_pages(self._journal, self._requests, "", self._take)

    def _take(self, view: View, page: Page) -> None:
        for _, name, _ in page:
            self.queue.add(name)

    async def reconcile(self, key: str) -> None:
        with self._journal.read() as view:
            row = view.get(self._requests, "", key)
        if row is not None and not is_being_deleted(row.body):
            await self.handle(decode(row.body))

    async def handle(self, request: Object) -> None:
        raise NotImplementedError

    async def _replace(self, request: Object, status: Object, subresource: str) -> None:
        """Store another status, unless the request has changed in the meantime."""
        try:
            await self._client.replace(self._definition, {**request, "status": status}, subresource)
        except (Conflict, NotFound):
            raise RetryLater from None


def condition_types(request: Object) -> set[str]:
    return {one["type"] for one in request["status"].get("conditions") or ()}


class _Right(NamedTuple):
    subresource: str
    message: str


_SELF = _Right("selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview.")
_NODE = _Right("nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview.")


class CertificateApproving(RequestController):
    """The approving controller: approves requests for node client certificates if the requester has the permission.

    The permission is `create` on certificatesigningrequests/selfnodeclient for a node that renews its own certificate,
    and on certificatesigningrequests/nodeclient for any node's. The authorizer is asked about the user in the spec,
    which the server has set. A request without the permission waits for an approver; the controller asks again after a
    growing pause, because the permission may be granted later. It never approves requests to other signers.
    """

    name = "certificate approving controller"
    account = "certificate-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._authorizer = context.authorizer

    async def handle(self, request: Object) -> None:
        spec, status = request["spec"], request["status"]
        usages = spec.get("usages") or []
        if spec["signerName"] != self._names.node_client_signer or not set(usages) <= CLIENT_USAGES:
            return
        if status.get("certificate") or condition_types(request) & {"Approved", "Denied"}:
            return
        await imported("cryptography.x509")
        try:
            facts = await trio.to_thread.run_sync(facts_of, spec["request"], limiter=self._threads)
        except UnfitRequest:
            return
        if node_client_refusal(facts, usages, self._rules):
            return
        for right in _rights(facts, spec):
            if await self._allowed(spec, right):
                approved = _with_condition(status, "Approved", "AutoApproved", right.message)
                await self._replace(request, approved, "approval")
                return
        raise RetryLater

    async def _allowed(self, spec: Object, right: _Right) -> bool:
        wanted = Attributes(
            _requester(spec),
            "create",
            self._definition.group,
            "*",
            self._definition.plural,
            right.subresource,
        )
        decision = self._authorizer.authorize(wanted)
        if not isinstance(decision, Decision):
            decision = await decision
        return decision.allowed


def _rights(facts: RequestFacts, spec: Object) -> tuple[_Right, ...]:
    own = spec.get("username") == facts.common_names[0]
    return (_SELF, _NODE) if own else (_NODE,)


def _requester(spec: Object) -> User:
    return User.from_fields(spec.get("username"), spec.get("uid"), spec.get("groups"), spec.get("extra"))


def _with_condition(status: Object, kind: str, reason: str, message: str) -> Object:
    condition = {
        "type": kind,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastUpdateTime": None,  # admission sets the times
        "lastTransitionTime": None,
    }
    conditions = [*(status.get("conditions") or ()), CONDITION.arranged(condition)]
    return STATUS.arranged({**status, "conditions": conditions})


logger = logging.getLogger(__name__)


class CertificateSigning(RequestController):
    """The signing controller: issues the certificates of approved requests to the built-in signers.

    If its signer does not sign an approved request, it gets no certificate but a line in the log, once, and by the rule
    `unfit-requests` the condition Failed. Signing runs in a thread.
    """

    name = "certificate signing controller"
    account = "certificate-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._authorities = context.authorities
        self._duration = context.signing_duration
        self._signers = signer_rules(context.names, context.rules)
        self._reported: dict[str, str] = {}  # uids of requests that have been logged, by name

    def observe(self, events: Sequence[Event]) -> None:
        super().observe(events)
        for event in events:
            if event.removed and event.type_id == self._requests:
                self._reported.pop(event.name, None)

    async def handle(self, request: Object) -> None:
        spec, status, conditions = request["spec"], request["status"], condition_types(request)
        rule = self._signers.get(spec["signerName"])
        if rule is None or status.get("certificate"):
            return
        if "Approved" not in conditions or conditions & {"Denied", "Failed"}:
            return
        try:
            certificate = await self._sign(spec, rule)
        except UnfitRequest as why:
            self._report(request, str(why))
            if self._rules.unfit_requests == "failed":
                failed = _with_condition(status, "Failed", "SignerValidationFailure", str(why))
                await self._replace(request, failed, "status")
            return
        encoded = base64.b64encode(certificate).decode()
        await self._replace(request, STATUS.arranged({**status, "certificate": encoded}), "status")

    async def _sign(self, spec: Object, rule: Rule) -> bytes:
        await imported("cryptography.x509")
        try:
            authority = await self._authorities.of_signer(spec["signerName"])
            lifetime = min(self._duration, spec.get("expirationSeconds") or self._duration)
            now = self._clock.now() / 1_000_000
            return await trio.to_thread.run_sync(
                _signed, spec, rule, authority, now, lifetime, limiter=self._threads
            )
        except CertificateError as error:
            logger.warning("the certificate signing controller cannot sign and will retry: %s", error)
            raise RetryLater from None

    def _report(self, request: Object, why: str) -> None:
        name, uid = request["metadata"]["name"], request["metadata"]["uid"]
        if self._reported.get(name) != uid:
            self._reported[name] = uid
            logger.warning(
                "certificate signing request %r for %s is approved but gets no certificate: %s",
                name,
                request["spec"]["signerName"],
                why,
            )


def _signed(spec: Object, rule: Rule, authority: Authority, now: float, lifetime: float) -> bytes:
    usages = spec.get("usages") or []
    refusal = rule(facts_of(spec["request"]), usages)
    if refusal:
        raise UnfitRequest(refusal)
    return issue(spec["request"], usages, authority, now, lifetime)


HOUR: Final = 3600
DECIDED_SECONDS: Final = HOUR
PENDING_SECONDS: Final = 24 * HOUR
_DECIDED: Final = ("Approved", "Denied", "Failed")


class CertificateCleaning(RequestController):
    """The cleaning controller: deletes old certificate signing requests.

    Approved, denied and failed requests an hour after that condition, pending ones a day after their creation, and
    every request when the certificate in it expires. By the rule `unissued-requests`, approved ones without a
    certificate may stay. A request that is not due yet is in the queue with its time.
    """

    name = "certificate cleaning controller"
    account = "certificate-controller"

    async def handle(self, request: Object) -> None:
        metadata, now = request["metadata"], self._clock.now() / 1_000_000
        retained = self._rules.unissued_requests == "retained"
        due = min(_due_times(request, retained=retained), default=inf)
        certificate = request["status"].get("certificate")
        if due > now and certificate:
            await imported("cryptography.x509")
            expiry = await trio.to_thread.run_sync(expiry_of, certificate, limiter=self._threads)
            due = due if expiry is None else min(due, expiry)
        if due == inf:
            return
        if due > now:
            self.queue.add_after(metadata["name"], due - now)
            return
        unchanged = DeleteOptions(uid=metadata["uid"], resource_version=metadata["resourceVersion"])
        try:
            await self._client.delete(self._definition, "", metadata["name"], unchanged)
        except (Conflict, NotFound):
            return  # a change leads to another call


def _due_times(request: Object, *, retained: bool) -> Iterator[float]:
    """In seconds since 1970; none for a request that is `retained` without a certificate."""
    created = micros_of(request["metadata"]["creationTimestamp"]) / 1_000_000
    decided = [one for one in request["status"].get("conditions") or () if one["type"] in _DECIDED]
    for condition in decided:
        if retained and condition["type"] == "Approved" and not request["status"].get("certificate"):
            continue
        since = condition.get("lastUpdateTime")
        # A client may send any time, but only decides while the request exists and is pending.
        claimed = micros_of(since) / 1_000_000 if since else created
        yield min(max(claimed, created), created + PENDING_SECONDS) + DECIDED_SECONDS
    if not decided:
        yield created + PENDING_SECONDS
