"""An authenticating proxy names users in headers: its certificate, names, groups, extra, and the trust pools."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from rewound.actors.identity import User
from rewound.gateway.settings.access import RequestHeaderSettings
from tests.api.access.seen_users import PATH, SeenUsers, served_to_all
from tests.gateway.api import Api
from tests.gateway.https import certificates, secure_client, trusting
from tests.issuers import Issuer, bundle, issuer

AUTHENTICATED = "system:authenticated"


def proxy_settings(proxies: Issuer | Path, **changed: Any) -> RequestHeaderSettings:
    file = proxies if isinstance(proxies, Path) else proxies.file
    given: dict[str, Any] = {
        "requestheader_client_ca_file": file,
        "requestheader_username_headers": ("X-Remote-User,X-Alternative-User",),
        "requestheader_group_headers": ("X-Remote-Group", "X-Other-Group"),
        "requestheader_extra_headers_prefix": ("X-Remote-Extra-",),
    }
    return RequestHeaderSettings(**{**given, **changed})


@asynccontextmanager
async def served_behind_proxy(**changed: Any) -> AsyncIterator[tuple[Api, SeenUsers]]:
    settings = proxy_settings(issuer("proxies"), **changed)
    async with served_to_all(request_headers=settings, client_ca_file=issuer("clients").file) as served:
        yield served


def client(api: Api, certificate: Path | None, *, http2: bool = False) -> httpx.AsyncClient:
    context = trusting(api.settings.pki / "ca.crt")
    if certificate is not None:
        context.load_cert_chain(certificate)
    return secure_client(api, context, http2=http2, http1=not http2)


Fields = list[tuple[str, str]]


@pytest.mark.parametrize("http2", [False, True])
async def test_headers_of_the_proxy_name_the_user(http2: bool) -> None:
    cases: list[tuple[Fields, User]] = [
        ([("X-Remote-User", "alice")], User("alice", groups=(AUTHENTICATED,))),
        ([("x-remote-USER", "alice")], User("alice", groups=(AUTHENTICATED,))),
        ([("X-Alternative-User", "bob")], User("bob", groups=(AUTHENTICATED,))),
        (
            [("X-Alternative-User", "bob"), ("X-Remote-User", "alice")],
            User("alice", groups=(AUTHENTICATED,)),
        ),
        ([("X-Remote-User", ""), ("X-Alternative-User", "bob")], User("bob", groups=(AUTHENTICATED,))),
        (
            [
                ("X-Remote-User", "Doe, Jane"),
                ("X-Remote-Group", "a, b"),
                ("X-Other-Group", "z"),
                ("x-remote-group", "c"),
                ("X-Remote-Group", ""),
            ],
            User("Doe, Jane", groups=("a, b", "c", "z", AUTHENTICATED)),
        ),
        (
            [
                ("X-Remote-User", "alice"),
                ("X-Remote-Extra-Scopes", "read, write"),
                ("X-Remote-Extra-scopes", "all"),
                ("X-Remote-Extra-Acme.com%2FProject", "some"),
                ("X-Remote-Extra-50%", "off"),
                ("X-Remote-Extra-%ff", "odd"),
            ],
            User(
                "alice",
                groups=(AUTHENTICATED,),
                extra=(
                    ("%ff", ("odd",)),
                    ("50%", ("off",)),
                    ("acme.com/project", ("some",)),
                    ("scopes", ("read, write", "all")),
                ),
            ),
        ),
        ([("X-Remote-User", "system:anonymous")], User("system:anonymous")),
    ]
    async with (
        served_behind_proxy() as (api, seen),
        client(api, issuer("proxies").leaf("front"), http2=http2) as proxy,
    ):
        for headers, user in cases:
            assert (await proxy.get(PATH, headers=headers)).status_code == 200, headers
            assert seen.last() == user


async def test_proxy_request_without_a_user_is_refused_not_anonymous() -> None:
    async with (
        served_behind_proxy() as (api, seen),
        client(api, issuer("proxies").leaf("admin", "system:masters")) as proxy,
    ):
        for headers in ({}, {"X-Remote-User": ""}, {"X-Remote-Group": "system:masters"}):
            assert (await proxy.get(PATH, headers=headers)).status_code == 401
            assert (await proxy.get("/livez", headers=headers)).status_code == 401
        assert seen.users == []
        token = {"authorization": "Bearer alice-token", "X-Remote-Group": "system:masters"}
        assert (await proxy.get(PATH, headers=token)).status_code == 200
        assert seen.last() == User("alice", "2", ("devs", AUTHENTICATED))
        wrong = {"authorization": "Bearer unknown"}
        assert (await proxy.get(PATH, headers=wrong)).status_code == 401


async def test_headers_of_the_proxy_take_precedence_over_a_token() -> None:
    async with (
        served_behind_proxy() as (api, seen),
        client(api, issuer("proxies").leaf("front")) as proxy,
    ):
        for token in ("admin-token", "unknown"):
            headers = {"authorization": f"Bearer {token}", "X-Remote-User": "alice"}
            assert (await proxy.get(PATH, headers=headers)).status_code == 200
            assert seen.last().name == "alice"


async def test_only_allowed_names_of_proxies_set_headers() -> None:
    headers = {"X-Remote-User": "alice"}
    async with served_behind_proxy(requestheader_allowed_names=("front,back",)) as (api, seen):
        for name in ("front", "back"):
            async with client(api, issuer("proxies").leaf(name)) as proxy:
                assert (await proxy.get(PATH, headers=headers)).status_code == 200
                assert seen.last().name == "alice"
        for name in ("other", "Front", "front,back", " front"):
            async with client(api, issuer("proxies").leaf(name)) as proxy:
                assert (await proxy.get(PATH, headers=headers)).status_code == 401, name
        assert seen.users == []


async def test_trust_pools_are_never_mixed() -> None:
    clients, proxies = issuer("clients"), issuer("proxies")
    headers = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters", "X-Remote-Extra-a": "b"}
    async with served_behind_proxy() as (api, seen):
        async with client(api, clients.leaf("alice", "devs")) as direct:
            assert (await direct.get(PATH, headers=headers)).status_code == 200
            assert seen.last() == User("alice", groups=("devs", AUTHENTICATED))
        async with client(api, None) as nobody:
            assert (await nobody.get(PATH, headers=headers)).status_code == 200
            assert seen.last() == User("system:anonymous", groups=("system:unauthenticated",))
        async with client(api, proxies.leaf("alice", "devs")) as proxy:
            assert (await proxy.get(PATH, headers=headers)).status_code == 200
            assert seen.last().name == "admin"
            assert (await proxy.get(PATH)).status_code == 401, "the same subject as that of an ordinary user"
        async with client(api, clients.leaf("alice", "devs")) as direct:
            assert (await direct.get(PATH)).status_code == 200
            assert seen.last().name == "alice"
        admin = api.settings.pki / "admin.pem"
        admin.write_bytes((api.settings.pki / "admin.crt").read_bytes())
        with admin.open("ab") as pair:
            pair.write((api.settings.pki / "admin.key").read_bytes())
        async with client(api, admin) as own:
            assert (await own.get(PATH, headers=headers)).status_code == 200
            assert seen.last() == User("admin", groups=("system:masters", AUTHENTICATED))


async def test_plain_port_never_reads_proxy_headers() -> None:
    async with served_behind_proxy() as (api, seen):
        await api.ask("GET", PATH, headers={"x-remote-user": "root"})
        assert seen.last().name == "admin"
        await api.ask("GET", PATH, token=None, headers={"x-remote-user": "root"})
        assert seen.last().name == "system:anonymous"


async def test_ca_in_both_files_makes_users_and_proxies() -> None:
    both = issuer("both")
    settings = proxy_settings(bundle(issuer("proxies"), both.renewed()))
    clients = bundle(issuer("clients"), both)
    async with (
        served_to_all(request_headers=settings, client_ca_file=clients) as (api, seen),
        client(api, both.leaf("front")) as proxy,
    ):
        await proxy.get(PATH, headers={"X-Remote-User": "alice"})
        assert seen.last().name == "alice"
        await proxy.get(PATH)
        assert seen.last().name == "front"


@pytest.mark.parametrize(
    ("proxies", "names", "warned"),
    [("both", (), True), ("data folder", (), True), ("both", ("front",), False), ("proxies", (), False)],
)
async def test_start_warns_if_every_client_could_be_a_proxy(
    caplog: pytest.LogCaptureFixture, proxies: str, names: tuple[str, ...], warned: bool
) -> None:
    files = {"both": issuer("both").file, "proxies": issuer("proxies").file}
    file = files.get(proxies) or certificates("cluster") / "ca.crt"
    settings = proxy_settings(file, requestheader_allowed_names=names)
    async with served_to_all(request_headers=settings, client_ca_file=issuer("both").file):
        pass
    assert caplog.text.count("each of them can name any user") == warned


async def test_ca_nearest_to_the_certificate_decides() -> None:
    """A proxy CA issued by a client CA only authenticates proxies; a client CA issued by a proxy CA only clients."""
    below_clients = issuer("clients").intermediate("proxies of the company")
    below_proxies = issuer("proxies").intermediate("clients of the proxy")
    sent = issuer("proxies").intermediate("sent by the proxy")
    settings = proxy_settings(bundle(issuer("proxies"), below_clients))
    clients = bundle(issuer("clients"), below_proxies)
    headers = {"X-Remote-User": "alice"}
    async with served_to_all(request_headers=settings, client_ca_file=clients) as (api, seen):
        through_intermediate = sent.leaf("front", intermediates=(sent,))
        for certificate in (
            below_clients.leaf("front"),
            below_clients.leaf("front", intermediates=(below_clients,)),
            through_intermediate,
        ):
            async with client(api, certificate) as proxy:
                if certificate is through_intermediate and sys.version_info < (3, 13):
                    with pytest.raises(
                        httpx.RemoteProtocolError
                    ):  # the chain is not public: no role is known
                        await proxy.get(PATH, headers=headers)
                    continue
                await proxy.get(PATH, headers=headers)
                assert seen.last().name == "alice"
                assert (await proxy.get(PATH)).status_code == 401
        async with client(api, below_proxies.leaf("bob", intermediates=(below_proxies,))) as direct:
            await direct.get(PATH, headers=headers)
            assert seen.last().name == "bob"
