"""Health over HTTP: summaries are public, single checks are not, and only the code counts to machines."""

from __future__ import annotations

import pytest

from tests.gateway.api import ALICE, served

KINDS = ["livez", "readyz", "healthz"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_healthy_server_says_ok(kind: str) -> None:
    async with served() as api:
        for token in (None, ALICE):
            answer = await api.ask("GET", f"/{kind}", token=token)
            assert (answer.status, answer.text) == (200, "ok")
            assert answer.headers["content-type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize("kind", KINDS)
async def test_verbose_names_every_check(kind: str) -> None:
    async with served() as api:
        for query in ("verbose", "verbose=", "verbose=true", "verbose=0"):
            *checks, last = (await api.ask("GET", f"/{kind}?{query}", token=None)).text.splitlines()
            assert last == f"{kind} check passed"
            assert {"[+]ping ok", "[+]start ok", "[+]actors ok"} <= set(checks)
            assert ("[+]journal ok" in checks) == (kind != "livez")
            assert ("[+]shutdown ok" in checks) == (kind == "readyz")


async def test_excluded_checks() -> None:
    async with served() as api:
        text = (await api.ask("GET", "/readyz?verbose&exclude=ping&exclude=journal")).text
        assert "[+]ping excluded: ok\n" in text
        assert "[+]journal excluded: ok\n" in text
        assert "[+]start ok\n" in text
        assert text.endswith("readyz check passed\n")


async def test_a_check_that_does_not_exist_cannot_be_excluded() -> None:
    async with served() as api:
        text = (await api.ask("GET", "/livez?verbose&exclude=nothing&exclude=ping")).text
        assert 'warn: some health checks cannot be excluded: no matches for "nothing"\n' in text
        assert "[+]ping excluded: ok\n" in text
        assert (await api.ask("GET", "/livez?exclude=nothing")).text == "ok"


@pytest.mark.parametrize("kind", KINDS)
async def test_every_check_has_a_path_of_its_own(kind: str) -> None:
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


async def test_plain_text_whatever_is_accepted() -> None:
    async with served() as api:
        for accepted in ("application/json", "image/png"):
            answer = await api.ask("GET", "/livez", headers={"accept": accepted})
            assert (answer.status, answer.text) == (200, "ok")


async def test_an_unknown_token_is_refused_even_here() -> None:
    async with served() as api:
        for path in ("/livez", "/healthz", "/version"):
            assert (await api.ask("GET", path, token="unknown")).expect(401)["reason"] == "Unauthorized"


@pytest.mark.parametrize("kind", KINDS)
async def test_the_kubernetes_dialect_names_checks_as_its_clients_do(kind: str) -> None:
    async with served(dialect="kubernetes") as api:
        text = (await api.ask("GET", f"/{kind}?verbose", token=None)).text
        *checks, last = text.splitlines()
        assert last == f"{kind} check passed"
        assert {
            "[+]ping ok",
            "[+]log ok",
            "[+]etcd ok",
            "[+]poststarthook/start-kube-apiserver-admission-initializer ok",
            "[+]poststarthook/bootstrap-controller ok",
            "[+]poststarthook/scheduling/bootstrap-system-priority-classes ok",
        } <= set(checks)
        assert ("[+]etcd-readiness ok" in checks) == (kind == "readyz")
        assert (await api.ask("GET", f"/{kind}/poststarthook/bootstrap-controller")).text == "ok"
        assert (await api.ask("GET", f"/{kind}?exclude=etcd")).text == "ok"
