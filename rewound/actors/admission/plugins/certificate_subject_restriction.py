"""CertificateSubjectRestriction: rejects requests for certificates of the group system:masters.

It applies only to the signer of API clients: the others do not sign such requests. The rule `certificate-subjects`
(`actors.profile`) says whether it is on by default.
"""

from __future__ import annotations

from rewound.actors.admission.plugin import Plugin, rule
from rewound.actors.admission.request import CREATE, AdmissionRequest
from rewound.actors.errors import Forbidden, Resource
from rewound.actors.identity import MASTERS
from rewound.actors.kinds.values.pem import InvalidPEM, organizations_of_request
from rewound.actors.names import Names


class CertificateSubjectRestriction(Plugin):
    name = "CertificateSubjectRestriction"
    thread_safe = True

    def __init__(self, names: Names) -> None:
        self._signer = names.client_signer
        self._resource = Resource(names.group("certificates"), "certificatesigningrequests")
        self.validates = (rule(CREATE, of=(self._resource,)),)

    def validate(self, request: AdmissionRequest) -> None:
        assert request.object is not None
        spec = request.object["spec"]
        if spec.get("signerName") != self._signer:
            return
        try:
            groups = organizations_of_request(spec["request"])
        except InvalidPEM as error:
            raise Forbidden(self._resource, request.name, f"failed to parse CSR: {error}") from None
        if MASTERS in groups:
            why = f"use of {self._signer} signer with {MASTERS} group is not allowed"
            raise Forbidden(self._resource, request.name, why)
