"""Rights of signers: CertificateApproval and CertificateSigning say who may approve and sign certificate signing
requests of a signer, ClusterTrustBundleAttest who may write its trust bundles, PodCertificateSigning who may decide
about its pod certificate requests.

The permission to write the subresource is not enough: approving needs the verb `approve` on the signer, and writing a
certificate or a condition by /status the verb `sign`. Permissions name the signer (`example.com/one`) or all signers of
its domain (`example.com/*`). The rule `denial-right` (`actors.profile`) says whether a denial needs `approve` too.
"""

from __future__ import annotations

from typing import ClassVar, Final

from rewound.actors.access.authorize import Attributes, Authorizer, Decision
from rewound.actors.admission.plugin import Admitted, AsyncPlugin, rule
from rewound.actors.admission.plugins.role_escalation import changes_only_harmless_metadata
from rewound.actors.admission.request import CREATE, UPDATE, AdmissionRequest
from rewound.actors.errors import Forbidden, Invalid, Resource
from rewound.actors.golang.quoting import quoted_start
from rewound.actors.identity import User
from rewound.actors.kinds.validation import FieldError, forbidden, invalid
from rewound.actors.kinds.values.times import micros_of
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.profile import DOCUMENTED, Rules
from rewound.actors.versions.features import TRUST_BUNDLES

REQUESTS: Final = "certificatesigningrequests"
CLOCK_SKEW: Final = 300 * 1_000_000  # microseconds


class _SignerPlugin(AsyncPlugin):
    """Authorizes a verb on a signer; an authorizer may wait for a webhook."""

    verb: ClassVar[str]
    plural: ClassVar[str] = REQUESTS

    def __init__(self, names: Names, authorizer: Authorizer) -> None:
        self._resource = Resource(names.group("certificates"), self.plural)
        self._authorizer = authorizer

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


class _RequestPlugin(_SignerPlugin):
    """Authorizes a verb on the signer of a certificate signing request."""

    subresource: ClassVar[str]

    def __init__(self, names: Names, authorizer: Authorizer) -> None:
        super().__init__(names, authorizer)
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


class CertificateApproval(_RequestPlugin):
    name = "CertificateApproval"
    subresource, verb = "approval", "approve"

    def __init__(self, names: Names, authorizer: Authorizer, rules: Rules = DOCUMENTED) -> None:
        super().__init__(names, authorizer)
        self._denials = rules.denial_right == "approve"

    def _concerns(self, request: AdmissionRequest) -> bool:
        assert request.object is not None and request.old is not None
        return self._denials or not _only_denies(request.object, request.old)


class CertificateSigning(_RequestPlugin):
    name = "CertificateSigning"
    subresource, verb = "status", "sign"

    def _concerns(self, request: AdmissionRequest) -> bool:
        assert request.object is not None and request.old is not None
        new, old = request.object["status"], request.old["status"]
        return new.get("certificate") != old.get("certificate") or _conditions(new) != _conditions(old)


class ClusterTrustBundleAttest(_SignerPlugin):
    """Writing the trust bundle of a signer needs the verb `attest` on the signer; without one, no further right."""

    name = "ClusterTrustBundleAttest"
    verb, plural = "attest", "clustertrustbundles"

    def __init__(self, names: Names, authorizer: Authorizer, features: frozenset[str]) -> None:
        super().__init__(names, authorizer)
        if TRUST_BUNDLES in features:
            self.validates = (rule(CREATE, UPDATE, of=(self._resource,)),)

    async def admit(self, request: AdmissionRequest) -> Admitted:
        user = request.context.caller if request.context else None
        assert request.object is not None
        signer = request.object["spec"].get("signerName")
        if user is None or not signer or changes_only_harmless_metadata(request.object, request.old):
            return Admitted()
        if not await self._allowed(user, signer):
            why = f"user not permitted to attest for signerName {quoted_start(signer)}"
            raise Forbidden(self._resource, request.name, why)
        return Admitted()


class PodCertificateSigning(_SignerPlugin):
    """Changing the status of a PodCertificateRequest needs the verb `sign` on its signer. No flag disables this.

    It also compares the time from which an issued certificate is valid with the clock, which validation does not know.
    """

    name = "PodCertificateSigning"
    verb, plural = "sign", "podcertificaterequests"

    def __init__(self, names: Names, authorizer: Authorizer) -> None:
        super().__init__(names, authorizer)
        self.validates = (rule(UPDATE, of=(self._resource,), subresources=("status",)),)

    async def admit(self, request: AdmissionRequest) -> Admitted:
        context, new, old = request.context, request.object, request.old
        assert context is not None and new is not None and old is not None
        if new["status"] == old["status"]:
            return Admitted()
        start = new["status"].get("notBefore")
        if start and abs(micros_of(start) - context.time) >= CLOCK_SKEW:
            text = "must be set to within 5 minutes of kube-apiserver's current time"
            raise self._refused(request, invalid("status.notBefore", start, text))
        user, signer = context.caller, old["spec"]["signerName"]
        if user is not None and not await self._allowed(user, signer):
            text = (
                f'User {quoted_start(user.name)} is not permitted to "sign" for signer {quoted_start(signer)}'
            )
            raise self._refused(request, forbidden("spec.signerName", text))
        return Admitted()

    def _refused(self, request: AdmissionRequest, error: FieldError) -> Invalid:
        causes = [error.cause(request.definition.features)]
        return Invalid(self._resource.group, request.definition.kind, request.name, causes)


def _only_denies(new: Object, old: Object) -> bool:
    """Whether the request is denied after the update, and no other condition has changed."""
    before, after = _conditions(old["status"]), _conditions(new["status"])
    others = [one for one in after if one["type"] != "Denied"]
    return len(others) < len(after) and others == [one for one in before if one["type"] != "Denied"]


def _conditions(status: Object) -> list[Object]:
    return list(status.get("conditions") or ())
