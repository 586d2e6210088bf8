"""Claims that tokens have since 1.30: an id, and the node of the pod; and the user that the server reads from them."""

from __future__ import annotations

from rewound.actors.access.accounts.claims import (
    ACCOUNTS,
    NODES,
    PODS,
    Reference,
    bound_claims,
    read_bound,
    user_of,
)
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import TOKEN_IDS, TOKEN_NODES

ACCOUNT = Reference(ACCOUNTS, "ns", "robot", "u1")
POD = Reference(PODS, "ns", "p", "u2")
NODE = Reference(NODES, "", "n", "u3")


def test_user_of_a_token_with_id_and_node() -> None:
    claims = bound_claims(KUBERNETES, ACCOUNT, POD, ("a",), 1, 600, 0, NODE, "id")
    assert claims["jti"] == "id" and claims["kubernetes.io"]["node"] == {"name": "n", "uid": "u3"}
    subject = read_bound(KUBERNETES, claims)
    assert (subject.bound, subject.node, subject.id) == (POD, NODE, "id")
    prefix = "authentication.kubernetes.io"
    pod = ((f"{prefix}/pod-name", ("p",)), (f"{prefix}/pod-uid", ("u2",)))
    assert user_of(KUBERNETES, subject).extra == pod
    credential = ((f"{prefix}/credential-id", ("JTI=id",)),)
    node = ((f"{prefix}/node-name", ("n",)), (f"{prefix}/node-uid", ("u3",)))
    assert user_of(KUBERNETES, subject, frozenset({TOKEN_IDS, TOKEN_NODES})).extra == credential + node + pod


def test_node_that_is_gone_has_no_uid() -> None:
    gone = Reference(NODES, "", "n", "")
    claims = bound_claims(KUBERNETES, ACCOUNT, POD, ("a",), 1, 600, 0, gone)
    assert claims["kubernetes.io"]["node"] == {"name": "n"} and "jti" not in claims
    assert read_bound(KUBERNETES, claims).node == gone
