"""The approving controller approves client certificates of nodes for users who have the right, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from cryptography import x509

from rewound.actors.controllers.certificates import CertificateApproving
from rewound.actors.controllers.loop import RetryLater
from rewound.actors.identity import User
from rewound.actors.names import CLUSTER
from tests.actors.certificates.making_requests import Wanted
from tests.actors.controllers.control_plane import ControlPlane, open_control_plane
from tests.actors.controllers.signing_requests import (
    CLIENT,
    DENIED,
    NODE_USER,
    SERVING,
    Rights,
    conditions_of,
    controller_context,
    create_request,
    request,
)

EVERYTHING = {"system:node:n1": {"selfnodeclient", "nodeclient"}, "joiner": {"selfnodeclient", "nodeclient"}}


async def approve(cluster: ControlPlane, rights: Rights) -> None:
    await CertificateApproving(controller_context(cluster, authorizer=rights)).reconcile("r")


@pytest.mark.parametrize(
    ("user", "right", "message"),
    [
        (
            NODE_USER,
            "selfnodeclient",
            "Auto approving self kubelet client certificate after SubjectAccessReview.",
        ),
        (NODE_USER, "nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview."),
        (
            {"username": "joiner"},
            "nodeclient",
            "Auto approving kubelet client certificate after SubjectAccessReview.",
        ),
    ],
)
async def test_requester_with_the_right_is_approved(
    tmp_path: Path, user: dict[str, Any], right: str, message: str
) -> None:
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        await create_request(cluster, **user)
        await approve(cluster, Rights({user["username"]: {right}}))
        (condition,) = request(cluster)["status"]["conditions"]
        assert {key: condition[key] for key in ("type", "status", "reason", "message")} == {
            "type": "Approved",
            "status": "True",
            "reason": "AutoApproved",
            "message": message,
        }


async def test_authorizer_is_asked_about_the_whole_requester(tmp_path: Path) -> None:
    rights = Rights({"joiner": {"nodeclient"}}, trio.lowlevel.checkpoint)
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        await create_request(cluster, username="joiner", uid="u", groups=["g"], extra={"k": ["v", "w"]})
        await approve(cluster, rights)
        assert conditions_of(cluster) == ["Approved"]
    assert [one.user for one in rights.asked] == [User("joiner", "u", ("g",), (("k", ("v", "w")),))]


async def test_right_for_oneself_is_no_right_for_another_node(tmp_path: Path) -> None:
    rights = Rights({"system:node:n1": {"selfnodeclient"}, "joiner": {"selfnodeclient"}})
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        other = Wanted((("O", "system:nodes"), ("CN", "system:node:n2")))
        await create_request(cluster, wanted=other, **NODE_USER)
        with pytest.raises(RetryLater):
            await approve(cluster, rights)
        assert conditions_of(cluster) == []
    assert [one.subresource for one in rights.asked] == ["nodeclient"]


async def test_request_without_the_right_is_tried_again(tmp_path: Path) -> None:
    rights = Rights({})
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        await create_request(cluster, username="joiner")
        with pytest.raises(RetryLater):
            await approve(cluster, rights)
        assert conditions_of(cluster) == []
        rights.rights["joiner"] = {"nodeclient"}
        await approve(cluster, rights)
        assert conditions_of(cluster) == ["Approved"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"signer": CLUSTER.client_signer},
        {"signer": CLUSTER.serving_signer, "usages": SERVING},
        {"signer": "example.com/node"},
        {"usages": CLIENT[:2]},
        {"usages": ["client auth", "digital signature"]},
        {"usages": [*CLIENT, "server auth"]},
        {"wanted": Wanted(names=[x509.DNSName("n1.example.com")])},
        {"wanted": Wanted(names=[x509.UniformResourceIdentifier("spiffe://a/b")])},
        {"wanted": Wanted((("O", "system:masters"), ("CN", "system:node:n1")))},
        {"wanted": Wanted((("O", "system:nodes"), ("O", "system:masters"), ("CN", "system:node:n1")))},
        {"wanted": Wanted((("O", "system:nodes"), ("CN", "admin")))},
        {"conditions": [DENIED]},
    ],
    ids=str,
)
async def test_other_requests_wait_for_an_approver(tmp_path: Path, wrong: dict[str, Any]) -> None:
    rights = Rights(EVERYTHING)
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        await create_request(cluster, **{**NODE_USER, **wrong})
        await approve(cluster, rights)
        assert conditions_of(cluster) == list(wrong.get("conditions", ()))
    assert rights.asked == []
