"""CertificateApproval and CertificateSigning: who may approve and sign certificate signing requests of a signer.

The permission to write the subresource is not enough: approving needs the verb `approve` on the signer, and writing a
certificate or a condition by /status the verb `sign`. Permissions name the signer (`example.com/one`) or all signers of
its domain (`example.com/*`). The rule `denial-right` (`actors.profile`) says whether a denial needs `approve` too.
"""

from __future__ import annotations

from typing import ClassVar, Final

from rewound.actors.access.authorize import Attributes, Authorizer, Decision
from rewound.actors.admission.plugin import Admitted, AsyncPlugin, rule
from rewound.actors.admission.request import UPDATE, AdmissionRequest
from rewound.actors.errors import Forbidden, Resource
from rewound.actors.golang.quoting import quoted_start
from rewound.actors.identity import User
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.profile import DOCUMENTED, Rules

REQUESTS: Final = "certificatesigningrequests"


class _SignerPlugin(AsyncPlugin):
    """Authorizes a verb on the signer of a request; an authorizer may wait for a webhook."""

    subresource: ClassVar[str]
    verb: ClassVar[str]

    def __init__(self, names: Names, authorizer: Authorizer) -> None:
        self._resource = Resource(names.group("certificates"), REQUESTS)
        self._authorizer = authorizer
        self.validates = (rule(UPDATE, of=(self._resource,), subresources=(self.subresource,)),)

    async def admit(self, request: AdmissionRequest) -> Admitted:
        user = request.context.caller if request.context else None
        if user is None or not self._concerns(request):
            return Admitted()
        assert request.old is not None
        signer = request.old["spec"]["signerName"]
        if not await self._allowed(user, signer):
            why = f"user not permitted to {self.verb} requests with signerName {quoted_start(signer)}"
            raise Forbidden(self._resource, request.name, why)
        return Admitted()

    def _concerns(self, request: AdmissionRequest) -> bool:
        raise NotImplementedError

    async def _allowed(self, user: User, signer: str) -> bool:
        domain = signer.partition("/")[0]
        for name in (signer, f"{domain}/*"):
            wanted = Attributes(user, self.verb, self._resource.group, "*", "signers", "", "", name)
            decision = self._authorizer.authorize(wanted)
            if not isinstance(decision, Decision):
                decision = await decision
            if decision.allowed:
                return True
        return False


class CertificateApproval(_SignerPlugin):
    name = "CertificateApproval"
    subresource, verb = "approval", "approve"

    def __init__(self, names: Names, authorizer: Authorizer, rules: Rules = DOCUMENTED) -> None:
        super().__init__(names, authorizer)
        self._denials = rules.denial_right == "approve"

    def _concerns(self, request: AdmissionRequest) -> bool:
        assert request.object is not None and request.old is not None
        return self._denials or not _only_denies(request.object, request.old)


class CertificateSigning(_SignerPlugin):
    name = "CertificateSigning"
    subresource, verb = "status", "sign"

    def _concerns(self, request: AdmissionRequest) -> bool:
        assert request.object is not None and request.old is not None
        new, old = request.object["status"], request.old["status"]
        return new.get("certificate") != old.get("certificate") or _conditions(new) != _conditions(old)


def _only_denies(new: Object, old: Object) -> bool:
    """Whether the request is denied after the update, and no other condition has changed."""
    before, after = _conditions(old["status"]), _conditions(new["status"])
    others = [one for one in after if one["type"] != "Denied"]
    return len(others) < len(after) and others == [one for one in before if one["type"] != "Denied"]


def _conditions(status: Object) -> list[Object]:
    return list(status.get("conditions") or ())
