"""The bootstrap signer keeps the signatures in cluster-info correct and complete."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import jwt
import pytest
from trio.testing import MockClock

from rewound.actors.access.bootstrap_token import BootstrapToken
from rewound.actors.controllers.bootstrap_tokens import TokenCleaner, detached_signature
from rewound.actors.profile import Rules
from tests.actors.bootstrap_secrets import ID, TOKEN, create_token
from tests.actors.controllers.control_plane import ControlPlane, open_control_plane

KUBECONFIG = "apiVersion: v1\nkind: Config\nclusters: []\n"
KEY = f"jws-kubeconfig-{ID}"


async def create_cluster_info(cluster: ControlPlane, **data: str) -> None:
    content = {"data": {"kubeconfig": KUBECONFIG, **data}}
    await cluster.create("configmaps", "cluster-info", namespace="cluster-public", content=content)


def info(cluster: ControlPlane) -> dict[str, Any]:
    found = cluster.get("configmaps", "cluster-info", "cluster-public")
    assert found is not None
    return found


def verified(detached: str, content: str, token: bytes = TOKEN) -> bool:
    """Verify it as a client does, by the documentation and with another implementation."""
    header, empty, signature = detached.split(".")
    assert empty == ""
    payload = base64.urlsafe_b64encode(content.encode()).rstrip(b"=").decode()
    try:
        decoded = jwt.api_jws.decode_complete(f"{header}.{payload}.{signature}", token, algorithms=["HS256"])
    except jwt.InvalidSignatureError:
        return False
    return decoded["header"] == {"alg": "HS256", "kid": ID} and decoded["payload"] == content.encode()


# A bootstrap token is shorter than PyJWT advises for HMAC keys.
pytestmark = pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")


async def test_signature_verifies_with_the_token_alone(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await create_cluster_info(cluster)
        await create_token(cluster)
        await cluster.wait_until_idle(1)
        signature = info(cluster)["data"][KEY]
        assert verified(signature, KUBECONFIG)
        assert not verified(signature, KUBECONFIG + " ")
        assert not verified(signature, KUBECONFIG, b"abc123.0000000000000000")


def test_key_is_the_one_of_the_rule() -> None:
    token = BootstrapToken("joshua", "my voice is my passcode", None, False, True, ())
    content = "Hello from the other side. I must have called a thousand times."
    as_kubeadm = "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9..VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_8"
    assert detached_signature(content, token, Rules(cluster_info_key="secret")) == as_kubeadm
    assert detached_signature(content, token, Rules()) != as_kubeadm


async def test_changed_kubeconfig_and_forged_signatures_are_signed_again(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await create_token(cluster)
        await create_cluster_info(cluster)
        await cluster.wait_until_idle(1)
        changed = info(cluster)
        changed["data"] |= {"kubeconfig": "other", KEY: "forged", "jws-kubeconfig-nobody": "forged too"}
        await cluster.replace("configmaps", changed)
        await cluster.wait_until_idle(1)
        data = info(cluster)["data"]
        assert data.keys() == {"kubeconfig", KEY}
        assert verified(data[KEY], "other")


async def test_signature_goes_with_its_token(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await create_token(cluster)
        await create_cluster_info(cluster, note="mine")
        await cluster.wait_until_idle(1)
        assert KEY in info(cluster)["data"]
        await cluster.delete("secrets", f"bootstrap-token-{ID}", namespace="cluster-system")
        await cluster.wait_until_idle(1)
        assert info(cluster)["data"] == {"kubeconfig": KUBECONFIG, "note": "mine"}


async def test_signature_goes_when_the_token_expires(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if its Secret is never deleted."""

    async def leave(*_: object) -> None: ...

    monkeypatch.setattr(TokenCleaner, "reconcile", leave)
    async with open_control_plane(tmp_path) as cluster:
        await create_token(cluster, expiration="2023-11-14T23:13:20Z")
        await create_cluster_info(cluster)
        await cluster.wait_until_idle(3595)
        assert KEY in info(cluster)["data"]
        await cluster.wait_until_idle(10)
        assert KEY not in info(cluster)["data"]
        assert cluster.get("secrets", f"bootstrap-token-{ID}", "cluster-system") is not None


@pytest.mark.parametrize(
    "wrong",
    [
        {"usage_bootstrap_signing": None},
        {"usage_bootstrap_signing": "1"},
        {"namespace": "default"},
        {"kind": "Opaque"},
        {"token_id": "xyz789"},
        {"expiration": "2020-01-01T00:00:00Z"},
        {"name": "bootstrap-tokenabc123"},
        {"name": "bootstrap-token-abc1234", "token_id": "abc1234"},
        {"name": "bootstrap-token-abc.12", "token_id": "abc.12"},
    ],
    ids=str,
)
async def test_other_secrets_do_not_sign(
    tmp_path: Path, autojump_clock: MockClock, wrong: dict[str, Any]
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await create_cluster_info(cluster)
        await create_token(cluster, **wrong)
        await cluster.wait_until_idle(1)
        assert info(cluster)["data"] == {"kubeconfig": KUBECONFIG}


async def test_it_writes_only_when_a_signature_changes(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await create_token(cluster)
        await create_cluster_info(cluster)
        await create_token(cluster, name="bootstrap-token-second", usage_bootstrap_signing=None)
        await cluster.wait_until_idle(3600)
        assert len(cluster.events("configmaps", "cluster-info")) == 2  # created, signed


async def test_config_map_is_never_created_and_other_ones_are_left_alone(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await create_token(cluster)
        content = {"data": {"kubeconfig": KUBECONFIG}}
        await cluster.create("configmaps", "cluster-info", namespace="default", content=content)
        await cluster.wait_until_idle(1)
        assert cluster.get("configmaps", "cluster-info", "cluster-public") is None
        assert len(cluster.events("configmaps", "cluster-info")) == 1


async def test_config_map_without_kubeconfig_is_unchanged(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await create_token(cluster)
        content = {"data": {KEY: "whatever"}}
        await cluster.create("configmaps", "cluster-info", namespace="cluster-public", content=content)
        await cluster.wait_until_idle(1)
        assert info(cluster)["data"] == {KEY: "whatever"}
