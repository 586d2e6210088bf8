"""ImagePolicyWebhook: the ImageReviews that it sends, its decisions, its cache, and a webhook that fails."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rewound.actors.admission.configuration import AdmissionConfigurationError, PluginConfiguration
from rewound.actors.admission.plugins.image_policy_webhook import parse_image_policy
from tests.actors.object_store import Refused
from tests.api.admission.audited import annotations_of_pods, audited
from tests.api.admission.configured import configured
from tests.gateway.api import Api, served
from tests.gateway.outgoing.https_peer import Peer, Received, Reply, https_peer

V1ALPHA1 = "imagepolicy.cluster.io/v1alpha1"
FAILED_OPEN = "alpha.image-policy.cluster.io/failed-open"


def decide(received: Received) -> dict[str, Any]:
    """Refuses `bad` images with a reason, and `worse` ones without."""
    images = [one.get("image") for one in received.document["spec"].get("containers", ())]
    status: dict[str, Any] = {"allowed": not {"bad", "worse"}.intersection(images)}
    if "bad" in images:
        status["reason"] = "bad is not signed"
    if "noted" in images:
        status["auditAnnotations"] = {"ticket": "1"}
    return {"apiVersion": V1ALPHA1, "kind": "ImageReview", "spec": {"ignored": True}, "status": status}


@asynccontextmanager
async def running(
    folder: Path, respond: Callable[[Received], Any] = decide, changed: Any = None, **policy: Any
) -> AsyncIterator[tuple[Peer, Api]]:
    async with https_peer(respond) as peer:
        file = peer.kubeconfig(folder)
        admission = configured(
            folder, "ImagePolicyWebhook", imagePolicy={"kubeConfigFile": file.name, **policy}
        )
        async with served(
            admission=admission,
            enable_admission_plugins="ImagePolicyWebhook",
            runtime_config=f"{V1ALPHA1}=true",
            **(changed or {}),
        ) as api:
            yield peer, api


async def create(api: Api, name: str, *images: str, annotations: Any = None, init: str = "") -> Any:
    spec: dict[str, Any] = {
        "containers": [{"name": f"c{index}", "image": image} for index, image in enumerate(images)]
    }
    if init:
        spec["initContainers"] = [{"name": "i", "image": init}]
    body = {"metadata": {"name": name, "annotations": annotations or {}}, "spec": spec}
    return (await api.create("pods", body))["metadata"].get("annotations", {})


async def test_review_has_images_annotations_and_namespace(tmp_path: Path) -> None:
    async with running(tmp_path) as (peer, api):
        annotations = {
            "mine.image-policy.cluster.io/ticket": "1",
            "image-policy.cluster.io/no": "2",
            "x": "3",
        }
        assert FAILED_OPEN not in await create(api, "a", "one", "two", init="zero", annotations=annotations)
        (received,) = peer.received
        assert received.document == {
            "apiVersion": V1ALPHA1,
            "kind": "ImageReview",
            "spec": {
                "containers": [{"image": "one"}, {"image": "two"}, {"image": "zero"}],
                "annotations": {"mine.image-policy.cluster.io/ticket": "1"},
                "namespace": "default",
            },
        }
        assert received.headers["content-type"] == "application/json"
        assert received.client == "client"


async def test_refusals_have_the_reason_and_decisions_are_cached(tmp_path: Path) -> None:
    async with running(tmp_path) as (peer, api):
        for image, why in (
            ("bad", "image policy webhook backend denied one or more images: bad is not signed"),
            ("worse", "one or more images rejected by webhook backend"),
        ):
            for _ in range(2):
                with pytest.raises(Refused) as refused:
                    await create(api, "a", image)
                assert refused.value.message == f'pods "a" is forbidden: {why}'
        assert len(peer.received) == 2
        await create(api, "b", "good")
        await create(api, "c", "good")
        assert len(peer.received) == 3


async def test_decisions_need_not_be_cached(tmp_path: Path) -> None:
    async with running(tmp_path, allowTTL=-1) as (peer, api):
        await create(api, "a", "good")
        await create(api, "b", "good")
        assert len(peer.received) == 2


async def test_ephemeral_containers_are_reviewed(tmp_path: Path) -> None:
    async with running(tmp_path) as (peer, api):
        await create(api, "a", "good")
        path = f"{api.path('pods', name='a')}/ephemeralcontainers"
        headers = {"content-type": "application/strategic-merge-patch+json"}
        for image, status in (("worse", 403), ("fine", 200)):
            body = {"spec": {"ephemeralContainers": [{"name": "e", "image": image}]}}
            assert (await api.ask("PATCH", path, body, headers=headers)).status == status
            assert peer.received[-1].document["spec"]["containers"] == [{"image": image}]


def wrong_version(received: Received) -> dict[str, Any]:
    return {**decide(received), "apiVersion": "imagepolicy.cluster.io/v1"}


def wrong_status(received: Received) -> dict[str, Any]:
    return {**decide(received), "status": {"allowed": "yes"}}


def no_response(received: Received) -> Reply:
    return Reply(status=400)


@pytest.mark.parametrize("respond", [wrong_version, wrong_status, no_response])
async def test_default_decides_when_the_webhook_fails(tmp_path: Path, respond: Any) -> None:
    """A failure is not cached; the pod that is allowed has an annotation in its stored form."""
    async with running(tmp_path, respond, defaultAllow=True) as (peer, api):
        assert await create(api, "a", "good", annotations={"z": "1"}) == {
            **await _limited(api, "a"),
            FAILED_OPEN: "true",
            "z": "1",
        }
        await create(api, "b", "good")
        assert len(peer.received) == 2


async def _limited(api: Api, name: str) -> dict[str, str]:
    """The annotation of LimitRanger, which is unrelated."""
    stored = (await api.get("pods", name))["metadata"]["annotations"]
    assert stored[FAILED_OPEN] == "true"
    return {key: value for key, value in stored.items() if "limit-ranger" in key}


async def test_audit_events_show_annotations_and_failures(tmp_path: Path) -> None:
    def respond(received: Received) -> Any:
        failing = received.document["spec"]["containers"] == [{"image": "failing"}]
        return Reply(status=400) if failing else decide(received)

    changed = {"audit": audited(tmp_path)}
    async with running(tmp_path, respond, changed, defaultAllow=True) as (_, api):
        for name, image in (("a", "noted"), ("b", "noted"), ("c", "failing"), ("d", "good")):
            await create(api, name, image)
    prefix = "imagepolicywebhook.image-policy.cluster.io/"
    noted, failed = {f"{prefix}ticket": "1"}, {f"{prefix}failed-open": "true"}
    assert annotations_of_pods(tmp_path, "image-policy.cluster.io") == [noted, noted, failed, {}]


async def test_pods_are_refused_by_default_when_the_webhook_fails(tmp_path: Path) -> None:
    async with running(tmp_path, no_response) as (_, api):
        with pytest.raises(Refused, match="responded with status 400") as refused:
            await create(api, "a", "good")
        assert refused.value.reason == "Forbidden"
        assert (await api.list("pods"))["items"] == []


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        ([], "imagePolicy: must be a mapping"),
        ({}, "imagePolicy.kubeConfigFile: must be the path of a file"),
        ({"kubeConfigFile": "missing"}, "imagePolicy.kubeConfigFile: "),
        ({"other": 1}, "imagePolicy.other: is not known"),
        ({"defaultAllow": "yes"}, "imagePolicy.defaultAllow: must be true or false"),
    ],
)
def test_configuration_that_cannot_be_used(tmp_path: Path, policy: Any, why: str) -> None:
    given = PluginConfiguration(tmp_path / "f", "", {"imagePolicy": policy})
    with pytest.raises(AdmissionConfigurationError) as refused:
        parse_image_policy(given)
    assert str(refused.value).startswith(f"{tmp_path / 'f'}: {why}")


@pytest.mark.parametrize(
    ("name", "value", "seconds"),
    [
        ("allowTTL", 0, 300.0),
        ("allowTTL", 1800, 1800.0),
        ("allowTTL", 1801, None),
        ("denyTTL", 0, 30.0),
        ("denyTTL", -1, 0.0),
        ("denyTTL", -2, None),
        ("denyTTL", "5", None),
        ("retryBackoff", 0, 0.5),
        ("retryBackoff", 2, 0.002),
        ("retryBackoff", 300_001, None),
    ],
)
async def test_times_of_the_configuration(
    tmp_path: Path, name: str, value: Any, seconds: float | None
) -> None:
    async with https_peer(decide) as peer:
        policy = {"kubeConfigFile": str(peer.kubeconfig(tmp_path)), name: value}
    given = PluginConfiguration(tmp_path / "f", "", {"imagePolicy": policy})
    if seconds is None:
        with pytest.raises(AdmissionConfigurationError, match=f"imagePolicy.{name}: must be"):
            parse_image_policy(given)
        return
    parsed = parse_image_policy(given)
    assert parsed is not None
    times = {
        "allowTTL": parsed.allow_seconds,
        "denyTTL": parsed.deny_seconds,
        "retryBackoff": parsed.retry_seconds,
    }
    assert times[name] == seconds
