"""The cleaning controller deletes certificate signing requests after their lifetimes."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rewound.actors.certificates.signing import Authority, issue
from rewound.actors.controllers.certificates import CertificateCleaning
from rewound.actors.profile import Rules
from tests.actors.certificates.making_requests import Wanted
from tests.actors.certificates.shared_folder import own_certificates
from tests.actors.controllers.control_plane import START, ControlPlane, open_control_plane
from tests.actors.controllers.signing_requests import (
    APPROVED,
    CLIENT,
    DENIED,
    FAILED,
    REQUESTS,
    controller_context,
    create_request,
    set_certificate,
)

SIGNER = "example.com/signer"  # no other controller works on these
START_TEXT = "2023-11-14T22:13:20Z"


def exists(cluster: ControlPlane, name: str = "r") -> bool:
    return cluster.get(REQUESTS, name) is not None


@pytest.mark.parametrize(
    ("conditions", "seconds"),
    [([], 24 * 3600), ([APPROVED], 3600), ([DENIED], 3600), ([FAILED], 3600), (["Other"], 24 * 3600)],
)
async def test_request_is_deleted_at_its_time(
    tmp_path: Path, autojump_clock: MockClock, conditions: list[str], seconds: int
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await create_request(cluster, signer=SIGNER, conditions=conditions, since=START_TEXT)
        await cluster.wait_until_idle(seconds - 5)
        assert exists(cluster)
        await cluster.wait_until_idle(10)
        assert not exists(cluster)


async def test_approved_request_without_a_certificate_may_stay(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        context = controller_context(cluster, rules=Rules(unissued_requests="retained"))
        controller = CertificateCleaning(context)
        for name, conditions in (("r", [APPROVED]), ("s", [DENIED]), ("t", [APPROVED, FAILED])):
            await create_request(cluster, name, signer=SIGNER, conditions=conditions, since=START_TEXT)
        await trio.sleep(48 * 3600)
        for name in ("r", "s", "t"):
            await controller.reconcile(name)
        assert [exists(cluster, name) for name in ("r", "s", "t")] == [True, False, False]


async def test_hour_begins_with_the_condition(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await create_request(cluster, signer=SIGNER, conditions=[APPROVED], since="2023-11-15T00:13:20Z")
        await cluster.wait_until_idle(2 * 3600 + 3595)
        assert exists(cluster)
        await cluster.wait_until_idle(10)
        assert not exists(cluster)


@pytest.mark.parametrize(
    ("claimed", "seconds"), [("2001-01-01T00:00:00Z", 3600), ("2099-01-01T00:00:00Z", 25 * 3600)]
)
async def test_time_of_a_condition_that_cannot_be_true_is_limited(
    tmp_path: Path, autojump_clock: MockClock, claimed: str, seconds: int
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await create_request(cluster, signer=SIGNER, conditions=[APPROVED], since=claimed)
        await cluster.wait_until_idle(seconds - 5)
        assert exists(cluster)
        await cluster.wait_until_idle(10)
        assert not exists(cluster)


async def test_requests_that_were_due_while_the_server_was_down_are_deleted(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        await create_request(cluster, signer=SIGNER, conditions=[DENIED], since=START_TEXT)
        await create_request(cluster, "young", signer=SIGNER)
        await trio.sleep(3600)
    async with open_control_plane(tmp_path) as cluster:
        await cluster.wait_until_idle(1)
        assert not exists(cluster) and exists(cluster, "young")


async def test_request_is_deleted_when_its_certificate_expires(tmp_path: Path, mock_clock: MockClock) -> None:
    own = own_certificates("cluster")
    authority = Authority(own.authority.read_bytes(), own.key("ca").read_bytes())
    pem = issue(Wanted().encoded(), CLIENT, authority, START / 1_000_000, 600)
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        await create_request(cluster, signer=SIGNER, conditions=[APPROVED], since=START_TEXT)
        await set_certificate(cluster, base64.b64encode(pem).decode())
        controller = CertificateCleaning(controller_context(cluster))
        await controller.reconcile("r")
        assert exists(cluster)
        mock_clock.jump(600)
        with trio.fail_after(1):
            assert await controller.queue.take() == "r"
        await controller.reconcile("r")
        assert not exists(cluster)
