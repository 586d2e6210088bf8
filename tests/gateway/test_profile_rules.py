"""Rule by rule, what a server of each profile does, as a client sees it; names are those of one dialect throughout."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from actors.profile import DOCUMENTS, PROFILES, TABLE, V1_25, choose_rules
from tests.gateway.api import Api, served
from tests.gateway.shared_server import ServerThread

Probe = Callable[[Api], Awaitable[str]]  # asks a server; returns the word of the rule that it follows
PROBES: dict[str, Probe] = {}
_servers: dict[str, ServerThread] = {}

LABELS = {"app": "web"}
CONTAINER = {"name": "c", "image": "i"}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": {"containers": [CONTAINER]}}


@asynccontextmanager
async def server_of(profile: str) -> AsyncIterator[Api]:
    """One server of each profile for all tests here, in the dialect `cluster`."""
    if profile not in _servers:
        _servers[profile] = ServerThread(profile=profile, enable_admission_plugins="")
    async with _servers[profile].connected() as api:
        yield api


def probe(of: Probe) -> Probe:
    PROBES[of.__name__.replace("_", "-")] = of
    return of


def choice(name: str, *, documents: bool) -> str:
    """The word of a rule by what was seen."""
    rule = next(one for one in TABLE if one.name == name)
    return rule.documents.word if documents else rule.v1_25.word


@probe
async def service_name(api: Api) -> str:
    body = {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}}
    response = await api.ask("POST", api.path("statefulsets"), body, dryRun="All")
    if response.status == 201:
        assert response.document["spec"]["serviceName"] == ""
        return "optional"
    assert response.expect(422)["details"]["causes"][0]["field"] == "spec.serviceName"
    return "required"


@probe
async def default_cpu(api: Api) -> str:
    body = {"metadata": {"name": "p"}, "spec": {"containers": [CONTAINER]}}
    made = (await api.ask("POST", api.path("pods"), body, dryRun="All")).expect(201)
    return str(made["spec"]["containers"][0]["resources"].get("requests", {}).get("cpu", "none"))


@probe
async def pod_security_policy(api: Api) -> str:
    found = (await api.ask("GET", "/apis/policy")).expect(200)
    served_versions = [one["version"] for one in found["versions"]]
    status = (await api.ask("GET", "/apis/policy/v1beta1/podsecuritypolicies")).status
    assert (status == 200) == ("v1beta1" in served_versions)
    return "served" if status == 200 else "removed"


@probe
async def health(api: Api) -> str:
    lines = (await api.ask("GET", "/readyz?verbose")).text.splitlines()
    if lines[-1] == "healthz check passed":
        assert "[+]journal ok" in lines
        return "rewound"
    assert lines[-1] == "readyz check passed" and "[+]etcd ok" in lines
    return "kubernetes"


SEEN_BELOW_HTTP = {
    "certificate-subjects": "tests/gateway/test_certificate_subjects.py",
    "cluster-info-key": "tests/actors/controllers/test_cluster_info_signatures.py",
    "root-certificate": "tests/gateway/test_cli_controllers.py",
}


@pytest.mark.parametrize("profile", PROFILES)
async def test_server_follows_every_rule_of_its_profile(profile: str) -> None:
    expected = choose_rules("cluster", profile)
    async with server_of(profile) as api:
        seen = {name: await ask(api) for name, ask in PROBES.items()}
    assert seen == {name: getattr(expected, name.replace("-", "_")) for name in PROBES}


def test_every_rule_has_a_test() -> None:
    assert {one.name for one in TABLE} == {*PROBES, *SEEN_BELOW_HTTP}


async def removed(api: Api, claim: str) -> None:
    path = api.path("persistentvolumeclaims", name=claim)
    with trio.fail_after(30):
        while (await api.ask("GET", path)).status != 404:
            await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("profile", PROFILES)
async def test_claims_in_use_are_protected_in_every_profile(profile: str) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    pod = {"nodeName": "n", "containers": [CONTAINER], "volumes": [volume]}
    async with server_of(profile) as api:
        for name in ("data", "unused"):
            await api.create("persistentvolumeclaims", {"metadata": {"name": name}, "spec": spec})
        await api.create("pods", {"metadata": {"name": "user"}, "spec": pod})
        for name in ("data", "unused"):
            await api.delete("persistentvolumeclaims", name)
        await removed(api, "unused")  # after the controller has seen the other one
        assert "deletionTimestamp" in (await api.get("persistentvolumeclaims", "data"))["metadata"]
        await api.delete("pods", "user", gracePeriodSeconds=0)
        await removed(api, "data")


async def test_one_rule_set_by_name_leaves_the_others() -> None:
    changed: dict[str, Any] = {"profile": V1_25, "rule": "health=rewound"}
    async with served(**changed) as api:
        assert await health(api) == "rewound"
        assert await service_name(api) == "optional"


async def test_dialect_chooses_the_profile() -> None:
    async with served(dialect="kubernetes") as api:
        assert await service_name(api) == "optional"
        assert await pod_security_policy(api) == "removed"
    async with served(dialect="kubernetes", profile=DOCUMENTS) as api:
        assert await service_name(api) == "required"
        assert await pod_security_policy(api) == "served"
