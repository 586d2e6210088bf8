"""The approving controller: approves requests for client certificates of nodes, if their requester has the right.

The right is `create` on certificatesigningrequests/selfnodeclient for a node that renews its own certificate, and on
certificatesigningrequests/nodeclient for any node's. The authorizer is asked about the user in the spec, which the
server has set. A request without the right waits for an approver; the controller asks again after a growing pause, as
the right may be given later. Requests to other signers are never approved here.
"""

from __future__ import annotations

from typing import NamedTuple

import trio

from actors.access.attributes import Attributes
from actors.access.authorize import Decision
from actors.background_import import imported
from actors.certificates.requests import RequestFacts, UnfitRequest, facts_of
from actors.certificates.signers import CLIENT_USAGES, node_client_refusal
from actors.controllers.certificates.requests import RequestController, condition_types
from actors.controllers.context import ControllerContext
from actors.controllers.loop import RetryLater
from actors.identity import User
from actors.kinds.certificates import CONDITION, STATUS
from actors.messages import Object


class _Right(NamedTuple):
    subresource: str
    message: str


_SELF = _Right("selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview.")
_NODE = _Right("nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview.")


class CertificateApproving(RequestController):
    name = "certificate approving controller"
    account = "certificate-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._authorizer = context.authorizer

    async def handle(self, request: Object) -> None:
        spec, status = request["spec"], request["status"]
        usages = spec.get("usages") or []
        if spec["signerName"] != self._names.node_client_signer or set(usages) != CLIENT_USAGES:
            return
        if status.get("certificate") or condition_types(request) & {"Approved", "Denied"}:
            return
        await imported("cryptography.x509")
        try:
            facts = await trio.to_thread.run_sync(facts_of, spec["request"], limiter=self._threads)
        except UnfitRequest:
            return
        if node_client_refusal(facts, usages):
            return
        for right in _rights(facts, spec):
            if await self._allowed(spec, right):
                await self._replace(request, _approved(status, right), "approval")
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
    extra = tuple((key, tuple(values)) for key, values in (spec.get("extra") or {}).items())
    return User(spec.get("username", ""), spec.get("uid", ""), tuple(spec.get("groups") or ()), extra)


def _approved(status: Object, right: _Right) -> Object:
    condition = {
        "type": "Approved",
        "status": "True",
        "reason": "AutoApproved",
        "message": right.message,
        "lastUpdateTime": None,  # admission sets the times
        "lastTransitionTime": None,
    }
    conditions = [*(status.get("conditions") or ()), CONDITION.arranged(condition)]
    return STATUS.arranged({**status, "conditions": conditions})
