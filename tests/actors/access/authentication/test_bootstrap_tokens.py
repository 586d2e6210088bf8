"""A bootstrap token authenticates only with a Secret that is valid in every respect."""

from __future__ import annotations

import hmac
from pathlib import Path
from typing import Any

import pytest
from trio.testing import MockClock

from rewound.actors.access.authentication.bootstrap_tokens import BootstrapTokens
from rewound.actors.access.bootstrap_token import token_of
from rewound.actors.identity import User
from rewound.actors.names import CLUSTER, KUBERNETES
from tests.actors.bootstrap_secrets import ID, SECRET, TOKEN, create_token, secret
from tests.actors.controllers.control_plane import ControlPlane, open_control_plane

PLAIN = User(f"system:bootstrap:{ID}", groups=("system:bootstrappers",))


def user(cluster: ControlPlane, token: bytes = TOKEN, audiences: tuple[str, ...] = ()) -> User | None:
    method = BootstrapTokens(CLUSTER, cluster.journal, cluster.clock)
    found = method.authenticate(token, audiences)
    return None if found is None else found.user


async def test_token_authenticates_until_its_secret_is_deleted(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        assert user(cluster) is None
        await create_token(cluster, description="for the new rack")
        assert user(cluster) == PLAIN
        assert user(cluster, audiences=("vault",)) is None
        await cluster.delete("secrets", f"bootstrap-token-{ID}", namespace="cluster-system")
        assert user(cluster) is None


async def test_token_is_valid_for_the_audiences_of_the_server(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        await create_token(cluster)
        method = BootstrapTokens(CLUSTER, cluster.journal, cluster.clock, ("api", "api2"))
        found = method.authenticate(TOKEN, ("vault", "api2"))
        assert found is not None and (found.user, found.audiences) == (PLAIN, ("api2",))
        assert method.authenticate(TOKEN, ("vault",)) is None


async def test_extra_groups_are_added(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        await create_token(cluster, auth_extra_groups="system:bootstrappers:b,system:bootstrappers:a:x-1")
        found = user(cluster)
        assert found is not None and found.groups == (
            "system:bootstrappers",
            "system:bootstrappers:a:x-1",
            "system:bootstrappers:b",
        )


@pytest.mark.parametrize(
    "wrong",
    [
        {"namespace": "default"},
        {"namespace": "cluster-public"},
        {"kind": "Opaque"},
        {"kind": "bootstrap.kubernetes.io/token"},
        {"kind": ""},
        {"token_id": "xyz789"},
        {"token_id": None},
        {"token_secret": None},
        {"token_secret": ""},
        {"token_secret": "0123456789abcdeX"},
        {"usage_bootstrap_authentication": None},
        {"usage_bootstrap_authentication": "yes"},
        {"usage_bootstrap_authentication": "True"},
        {"expiration": "2001-02-03T04:05:06Z"},
        {"expiration": "next year"},
        {"expiration": "2023-11-14T22:13:20Z"},  # this very moment
        {"auth_extra_groups": "system:masters"},
        {"auth_extra_groups": "system:bootstrappers:good,system:masters"},
        {"auth_extra_groups": "system:bootstrappers:"},
        {"auth_extra_groups": "system:bootstrappers:good,"},
        {"auth_extra_groups": "system:bootstrappers:good, system:bootstrappers:other"},
        {"auth_extra_groups": "system:bootstrappers:A"},
        {"finalizers": ["example.com/keep"]},  # being deleted, see below
    ],
    ids=str,
)
async def test_wrong_secret_does_not_authenticate(
    tmp_path: Path, autojump_clock: MockClock, wrong: dict[str, Any]
) -> None:
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        await create_token(cluster, **wrong)
        if "finalizers" in wrong:
            assert user(cluster) == PLAIN
            await cluster.delete("secrets", f"bootstrap-token-{ID}", namespace="cluster-system")
        assert user(cluster) is None


async def test_expiry_follows_the_clock(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        await create_token(cluster, expiration="2023-11-14T23:13:20+00:00")
        autojump_clock.jump(3599)
        assert user(cluster) == PLAIN
        autojump_clock.jump(1)
        assert user(cluster) is None


@pytest.mark.parametrize(
    "token",
    [
        b"",
        ID.encode(),
        SECRET.encode(),
        TOKEN + b"\n",
        TOKEN.upper(),
        b" " + TOKEN,
        b"abc123:0123456789abcdef",
        b"abc123.0123456789abcde",
        b"abc123.0123456789abcdeg",
        b"xyz789.0123456789abcdef",
        b"\xff" * 23,
        b"abc/../0123456789abcdef",
    ],
)
async def test_only_the_whole_token_authenticates(
    tmp_path: Path, autojump_clock: MockClock, token: bytes
) -> None:
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        await create_token(cluster)
        assert user(cluster, token) is None


def test_type_of_the_secret_follows_the_dialect() -> None:
    found = {**secret(KUBERNETES), "metadata": {"name": f"bootstrap-token-{ID}"}}
    assert found["type"] == "bootstrap.kubernetes.io/token"
    assert token_of(found, KUBERNETES) is not None
    assert token_of(found, CLUSTER) is None
    assert SECRET not in repr(token_of(found, KUBERNETES))


@pytest.mark.parametrize("sent", ["0123456789abcdef", "1123456789abcdef", "0123456789abcde0"])
async def test_secrets_are_compared_in_constant_time(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, sent: str
) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(stored: bytes, given: bytes) -> bool:
        compared.append((stored, given))
        return compare_digest(stored, given)

    compare_digest = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", compare)
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        await create_token(cluster)
        assert (user(cluster, f"{ID}.{sent}".encode()) is not None) is (sent == SECRET)
    assert compared == [(SECRET.encode(), sent.encode())]
