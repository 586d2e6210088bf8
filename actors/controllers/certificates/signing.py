"""The signing controller: issues the certificates of approved requests to the built-in signers.

An approved request that its signer does not sign gets no certificate and no condition, only a line in the log, once.
Signing runs in a thread.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Sequence

import trio

from actors.background_import import imported
from actors.certificates.authorities import Authority
from actors.certificates.requests import UnfitRequest, facts_of
from actors.certificates.signers import Rule, rules
from actors.certificates.signing import issue
from actors.certificates.store import CertificateError
from actors.controllers.certificates.requests import RequestController, condition_types
from actors.controllers.context import ControllerContext
from actors.controllers.loop import RetryLater
from actors.kinds.certificates import STATUS
from actors.messages import Object
from journal.records import Event

logger = logging.getLogger(__name__)


class CertificateSigning(RequestController):
    name = "certificate signing controller"
    account = "certificate-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._authorities = context.authorities
        self._duration = context.signing_duration
        self._rules = rules(context.names)
        self._reported: dict[str, str] = {}  # uids of requests with a line in the log, by name

    def observe(self, events: Sequence[Event]) -> None:
        super().observe(events)
        for event in events:
            if event.removed and event.type_id == self._requests:
                self._reported.pop(event.name, None)

    async def handle(self, request: Object) -> None:
        spec, status, conditions = request["spec"], request["status"], condition_types(request)
        rule = self._rules.get(spec["signerName"])
        if rule is None or status.get("certificate"):
            return
        if "Approved" not in conditions or conditions & {"Denied", "Failed"}:
            return
        try:
            certificate = await self._sign(spec, rule)
        except UnfitRequest as why:
            self._report(request, str(why))
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
            logger.warning("the certificate signing controller cannot sign, and tries again: %s", error)
            raise RetryLater from None

    def _report(self, request: Object, why: str) -> None:
        name, uid = request["metadata"]["name"], request["metadata"]["uid"]
        if self._reported.get(name) != uid:
            self._reported[name] = uid
            logger.warning(
                "certificate signing request %r for %s is approved and gets no certificate: %s",
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
