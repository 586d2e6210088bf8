"""CertificateSubjectRestriction refuses certificate requests for system:masters, where the plugin is on."""

from __future__ import annotations

import base64

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from rewound.actors.admission.chain import Admission, validate_ephemeral
from rewound.actors.admission.plugins.certificate_subject_restriction import CertificateSubjectRestriction
from rewound.actors.admission.request import AdmissionRequest
from rewound.actors.admission.selection import plugins_off
from rewound.actors.errors import Forbidden
from rewound.actors.kinds.built_in import built_in
from rewound.actors.names import CLUSTER, KUBERNETES, NAMES, Names
from rewound.actors.profile import Rules, default_rules
from rewound.actors.runtime.coroutines import without_waiting
from tests.gateway.api import served


def request_for(*organizations: str) -> str:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, one) for one in organizations]
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "me"), *attributes])
    key = ec.generate_private_key(ec.SECP256R1())
    made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()


def refusal(names: Names, signer: str, *organizations: str) -> str:
    definition = built_in(names).find(names.group("certificates"), "v1", "certificatesigningrequests")
    assert definition is not None
    new = {"metadata": {"name": "a"}, "spec": {"signerName": signer, "request": request_for(*organizations)}}
    request = AdmissionRequest("CREATE", definition, "", "a", "", new, None, "user", False)
    chain = Admission([CertificateSubjectRestriction(names)]).chain(definition, "CREATE", "")
    try:
        without_waiting(validate_ephemeral(chain, request))
    except Forbidden as error:
        return str(error)
    return ""


@pytest.mark.parametrize("names", [CLUSTER, KUBERNETES])
def test_requests_for_masters_are_refused_for_the_signer_of_clients(names: Names) -> None:
    resource = f"certificatesigningrequests.{names.group('certificates')}"
    text = f'{resource} "a" is forbidden: use of {names.client_signer} signer with system:masters group is not allowed'
    assert refusal(names, names.client_signer, "system:masters") == text
    assert refusal(names, names.client_signer, "devs", "system:masters") == text
    assert refusal(names, names.client_signer, "devs") == ""
    assert refusal(names, names.client_signer) == ""
    assert refusal(names, names.serving_signer, "system:masters") == ""
    assert refusal(names, "example.com/mine", "system:masters") == ""


def test_plugin_is_on_by_default_in_the_kubernetes_dialect_alone() -> None:
    name, none = "CertificateSubjectRestriction", frozenset[str]()
    assert name in plugins_off(Rules(), none, none)
    assert name not in plugins_off(Rules(), frozenset({name}), none)
    assert name not in plugins_off(default_rules("kubernetes"), none, none)
    assert name in plugins_off(default_rules("kubernetes"), none, frozenset({name}))


@pytest.mark.parametrize(("dialect", "status"), [("cluster", 201), ("kubernetes", 403)])
async def test_default_of_the_dialect_decides_over_http(dialect: str, status: int) -> None:
    names = NAMES[dialect]
    spec = {
        "signerName": names.client_signer,
        "request": request_for("system:masters"),
        "usages": ["client auth"],
    }
    async with served(dialect=dialect) as api:
        path = api.path("certificatesigningrequests")
        response = await api.ask("POST", path, {"metadata": {"name": "a"}, "spec": spec})
        assert response.status == status
