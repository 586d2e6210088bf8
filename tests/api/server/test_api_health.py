"""Health over HTTP: summaries are public, single checks need rights."""

from __future__ import annotations

import pytest

from tests.gateway.api import ALICE, served

KINDS = ["livez", "readyz", "healthz"]


@pytest.mark.parametrize("kind", KINDS)
async def test_healthy_server_reports_ok(kind: str) -> None:
    async with served() as api:
        for token in (None, ALICE):
            response = await api.ask("GET", f"/{kind}", token=token)
            assert (response.status, response.text) == (200, "ok")
            assert response.headers["content-type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize("kind", KINDS)
async def test_verbose_report_lists_every_check(kind: str) -> None:
    async with served() as api:
        for query in ("verbose", "verbose=", "verbose=true", "verbose=0"):
            *checks, last = (await api.ask("GET", f"/{kind}?{query}", token=None)).text.splitlines()
            assert last == "healthz check passed"
            assert {"[+]ping ok", "[+]start ok", "[+]actors ok"} <= set(checks)
            assert ("[+]journal ok" in checks) == (kind != "livez")
            assert ("[+]shutdown ok" in checks) == (kind == "readyz")


async def test_excluded_checks_are_marked() -> None:
    async with served() as api:
        text = (await api.ask("GET", "/readyz?verbose&exclude=ping&exclude=journal")).text
        assert "[+]ping excluded: ok\n" in text
        assert "[+]journal excluded: ok\n" in text
        assert "[+]start ok\n" in text
        assert text.endswith("healthz check passed\n")


async def test_excluding_an_unknown_check_warns() -> None:
    async with served() as api:
        text = (await api.ask("GET", "/livez?verbose&exclude=nothing&exclude=ping")).text
        assert 'warn: some health checks cannot be excluded: no matches for "nothing"\n' in text
        assert "[+]ping excluded: ok\n" in text
        assert (await api.ask("GET", "/livez?exclude=nothing")).text == "ok"


@pytest.mark.parametrize("kind", KINDS)
async def test_every_check_has_its_own_path(kind: str) -> None:
    async with served() as api:
        lines = (await api.ask("GET", f"/{kind}?verbose")).text.splitlines()[:-1]
        checks = [line.removeprefix("[+]").removesuffix(" ok") for line in lines]
        paths = (await api.ask("GET", "/")).document["paths"]
        for check in checks:
            assert (await api.ask("GET", f"/{kind}/{check}")).text == "ok"
            assert f"/{kind}/{check}" in paths
        assert (await api.ask("GET", f"/{kind}/nothing")).status == 404


async def test_single_checks_need_rights() -> None:
    async with served() as api:
        status = (await api.ask("GET", "/livez/ping", token=None)).expect(403)
        assert status["message"] == 'forbidden: User "system:anonymous" cannot get path "/livez/ping"'
        assert (await api.ask("GET", "/livez/ping", token=ALICE)).status == 403


async def test_report_is_plain_text_for_every_accept_header() -> None:
    async with served() as api:
        for accepted in ("application/json", "image/png"):
            response = await api.ask("GET", "/livez", headers={"accept": accepted})
            assert (response.status, response.text) == (200, "ok")


async def test_unknown_token_is_refused_on_public_paths() -> None:
    async with served() as api:
        for path in ("/livez", "/healthz", "/version"):
            assert (await api.ask("GET", path, token="unknown")).expect(401)["reason"] == "Unauthorized"


HOOKS = [
    "poststarthook/start-kube-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/bootstrap-controller",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-status-available-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
]


async def test_kubernetes_dialect_has_the_checks_of_kube_apiserver() -> None:
    """Also `actors`, a check that kube-apiserver does not have."""
    wanted = {
        "healthz": ["ping", "log", "etcd", *HOOKS, "actors"],
        "livez": ["ping", "log", "etcd", *HOOKS, "actors"],
        "readyz": ["ping", "log", "etcd", "etcd-readiness", "informer-sync", *HOOKS, "actors", "shutdown"],
    }
    async with served(dialect="kubernetes") as api:
        for kind, names in wanted.items():
            *checks, last = (await api.ask("GET", f"/{kind}?verbose", token=None)).text.splitlines()
            assert last == f"{kind} check passed"
            assert checks == [f"[+]{name} ok" for name in names]
            for name in names:
                assert (await api.ask("GET", f"/{kind}/{name}")).text == "ok", name
            assert (await api.ask("GET", f"/{kind}?exclude=etcd")).text == "ok"


async def test_checks_of_fairness_exist_where_it_is_on() -> None:
    async with served(dialect="kubernetes", enable_priority_and_fairness=False) as api:
        text = (await api.ask("GET", "/livez?verbose")).text
        assert "priority-and-fairness" not in text
        assert "[+]poststarthook/storage-object-count-tracker-hook ok" in text
