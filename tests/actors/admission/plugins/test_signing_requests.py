"""The server sets the requesting user and the condition times of certificate signing requests."""

from __future__ import annotations

from typing import Any

from rewound.actors.admission.chain import Admission
from rewound.actors.admission.completions import CertificateLibrary, SigningRequests
from rewound.actors.admission.request import AdmissionRequest
from rewound.actors.identity import User
from rewound.actors.kinds.built_in import built_in
from rewound.actors.messages import WriteContext
from rewound.actors.names import CLUSTER
from rewound.actors.runtime.background_import import _imported
from tests.cases import cases

REQUESTS = built_in(CLUSTER).find("certificates.cluster.io", "v1", "certificatesigningrequests")
assert REQUESTS is not None
ALICE = User("alice", "uid-alice", ("devs", "system:authenticated"), (("scopes", ("a", "b")),))
NOON = 1_577_880_000_000_000


def request(
    operation: str,
    new: dict[str, Any],
    old: dict[str, Any] | None = None,
    subresource: str = "",
    user: User = ALICE,
) -> AdmissionRequest:
    assert REQUESTS is not None
    context = WriteContext(NOON, "alice", "m", "u", "", user)
    return AdmissionRequest(operation, REQUESTS, "", "a", subresource, new, old, "alice", False, context)


def test_requesting_user_is_set() -> None:
    claimed = {"username": "admin", "uid": "0", "groups": ["system:masters"], "extra": {"x": ["y"]}}
    new = {"metadata": {}, "spec": {"request": "", "signerName": "a.b/c", **claimed}, "status": {}}
    completed = SigningRequests(CLUSTER).complete(request("CREATE", new))
    assert completed is not None and completed["spec"] == {
        "request": "",
        "signerName": "a.b/c",
        "username": "alice",
        "uid": "uid-alice",
        "groups": ["devs", "system:authenticated"],
        "extra": {"scopes": ["a", "b"]},
    }


def test_user_without_uid_groups_and_extra_cannot_claim_any() -> None:
    claimed = {"uid": "0", "groups": ["system:masters"], "extra": {"x": ["y"]}}
    new = {"metadata": {}, "spec": {"request": "", "signerName": "a.b/c", **claimed}, "status": {}}
    completed = SigningRequests(CLUSTER).complete(request("CREATE", new, user=User("alice")))
    expected = {"request": "", "signerName": "a.b/c", "username": "alice"}
    assert completed is not None and completed["spec"] == expected


def condition(kind: str, updated: str | None = None, since: str | None = None) -> dict[str, Any]:
    return {"type": kind, "status": "True", "lastUpdateTime": updated, "lastTransitionTime": since}


def test_condition_times_are_set() -> None:
    new = {"status": {"conditions": [condition("Approved"), condition("Failed"), condition("X", "u", "t")]}}
    old = {"status": {"conditions": [condition("Failed", "2019-01-01T00:00:00Z", "2019-01-01T00:00:00Z")]}}
    completed = SigningRequests(CLUSTER).complete(request("UPDATE", new, old, "approval"))
    noon = "2020-01-01T12:00:00Z"
    assert completed is not None and completed["status"]["conditions"] == [
        condition("Approved", noon, noon),
        condition("Failed", noon, "2019-01-01T00:00:00Z"),
        condition("X", "u", "t"),
    ]


def test_update_without_subresource_is_unchanged() -> None:
    assert REQUESTS is not None
    admission = Admission([SigningRequests(CLUSTER)])
    assert not admission.chain(REQUESTS, "UPDATE", "").changes
    assert admission.chain(REQUESTS, "UPDATE", "status").changes


@cases(
    ("operation", "subresource"),
    [("CREATE", ""), ("UPDATE", ""), ("UPDATE", "approval"), ("UPDATE", "status")],
)
async def test_library_is_imported_before_a_request_is_validated(operation: str, subresource: str) -> None:
    """Otherwise validation would import it in the event loop."""
    assert REQUESTS is not None
    plugin = CertificateLibrary(CLUSTER)
    chain = Admission([plugin]).chain(REQUESTS, operation, subresource)
    assert [step.plugin for step in chain.changes] == [plugin] and not chain.checks
    await plugin.admit(request(operation, {}, {}, subresource))
    assert "cryptography.x509" in _imported
