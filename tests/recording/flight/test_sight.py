"""Users of the recorded cluster see in its recording what they may read in the cluster, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import trio
import yaml
from trio.testing import MockClock

from rewound.cli.flight import flight
from rewound.client.session import Session
from rewound.recording.flight.flight import FlightOptions
from rewound.recording.flight.lease import Lease, Sender
from tests.actors.object_store import memory_folder
from tests.gateway.api import ALICE, Api, config_map, served
from tests.recording.flight.flying import Flying, flying
from tests.recording.record.recording import session_to

RBAC = "rbac.authorization.cluster.io"
MANIFESTS = Path(__file__).parents[3] / "deploy" / "flight"


@pytest.fixture
def folder() -> Iterator[Path]:
    with memory_folder() as found:
        yield found / "out"


async def let_alice_read_config_maps_of(api: Api, namespace: str) -> None:
    await api.create("namespaces", {"metadata": {"name": namespace}})
    path = f"/apis/{RBAC}/v1/namespaces/{namespace}"
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]
    binding = {
        "subjects": [{"kind": "User", "name": "alice", "apiGroup": RBAC}],
        "roleRef": {"kind": "Role", "name": "reader", "apiGroup": RBAC},
    }
    for resource, body in (("roles", {"rules": rules}), ("rolebindings", binding)):
        (await api.ask("POST", f"{path}/{resource}", {"metadata": {"name": "reader"}, **body})).expect(201)


async def shown(one: Flying, path: str, token: str | None = ALICE) -> int:
    return (await one.api.ask("GET", path, token=token)).status


async def test_users_of_one_namespace_see_only_this_one(folder: Path, autojump_clock: MockClock) -> None:
    async with served() as api:
        for namespace in ("shop", "bank"):
            if namespace == "shop":
                await let_alice_read_config_maps_of(api, namespace)
            else:
                await api.create("namespaces", {"metadata": {"name": namespace}})
            path = f"/api/v1/namespaces/{namespace}/configmaps"
            (await api.ask("POST", path, config_map("web"))).expect(201)
        async with flying(api, folder) as one:
            await one.begun()
            mine, others = "/api/v1/namespaces/shop", "/api/v1/namespaces/bank"
            version = one.flight.journal.head
            history = "/apis/rewound.cluster.io/v1/namespaces/{}/configmaps/web/history"
            for path in (
                f"{mine}/configmaps",
                f"{mine}/configmaps/web",
                f"{mine}/configmaps/web?at={version}",
                history.format("shop"),
            ):
                assert await shown(one, path) == 200, path
            for path in (
                "/api/v1/configmaps",
                f"{mine}/secrets",
                f"{mine}/configmaps/web/status",
                f"{others}/configmaps",
                f"{others}/configmaps/web?at={version}",
                history.format("bank"),
                "/debug/rewound/flight",
                "/metrics",
            ):
                assert await shown(one, path) in (403, 404), path
            assert await shown(one, f"{mine}/configmaps", None) == 401
            assert await shown(one, f"{mine}/configmaps", "unknown") == 401
            write = await one.api.ask("POST", f"{mine}/configmaps", config_map("new"), token=ALICE)
            assert write.status == 403


async def test_the_access_log_says_who_looked_at_what(folder: Path, autojump_clock: MockClock) -> None:
    log = folder.parent / "access.log"
    async with served() as api:
        await let_alice_read_config_maps_of(api, "shop")
        async with flying(api, folder, access_log=str(log)) as one:
            await one.begun()
            mine = "/api/v1/namespaces/shop"
            timeline = "/apis/rewound.cluster.io/v1/timeline/events?namespace=shop"
            for path in (f"{mine}/configmaps", f"{mine}/secrets", timeline, "/debug/journal/", "/readyz"):
                await shown(one, path)
    events = [orjson.loads(line) for line in log.read_bytes().splitlines()]
    own = [
        (one["verb"], one["requestURI"], one["responseStatus"]["code"])
        for one in events
        if one["user"].get("username") == "alice"
    ]
    assert own[:2] == [("list", f"{mine}/configmaps", 200), ("list", f"{mine}/secrets", 403)]
    assert [uri for _, uri, _ in own[2:]] == [timeline]


async def test_for_everyone_nobody_signs_in_and_nobody_writes(
    folder: Path, autojump_clock: MockClock
) -> None:
    async with served() as api:
        (await api.ask("POST", "/api/v1/namespaces/default/configmaps", config_map("web"))).expect(201)
        async with flying(api, folder, options=FlightOptions(for_everyone=True)) as one:
            await one.begun()
            path = "/api/v1/namespaces/default/configmaps"
            assert await shown(one, path, None) == 200
            assert (await one.api.ask("POST", path, config_map("new"), token=None)).status == 403


async def test_probes_need_neither_credentials_nor_the_cluster(
    folder: Path, autojump_clock: MockClock
) -> None:
    async with served() as api, flying(api, folder) as one:
        await one.begun()
        for away in (False, True):
            for path in ("/livez", "/readyz", "/healthz"):
                assert await shown(one, path, None) == 200, path
                assert await shown(one, path, "unknown") == 200, path
            for path in ("/metrics", "/livez/ping", "/version", "/debug/rewound/flight"):
                assert await shown(one, path, None) == 401, path
            if not away:
                await api.finish()


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (("--bind-address", "0.0.0.0"), "0.0.0.0 can be reached from other machines"),
        (("--bind-address", "example.org"), "example.org can be reached from other machines"),
        (("--with-secrets",), "everybody would see the values of Secrets"),
    ],
)
def test_a_page_for_everyone_is_refused_where_it_would_leak(
    folder: Path, more: tuple[str, ...], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert flight([str(folder), "--page-for-everyone", *more]) == 2
    assert why in capsys.readouterr().err
    assert not folder.exists()


def manifests() -> list[dict[str, Any]]:
    """The objects of the manifests."""
    names = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text())["resources"]
    text = "\n---\n".join((MANIFESTS / name).read_text() for name in names)
    return [one for one in yaml.safe_load_all(text) if one]


async def test_the_account_of_the_manifests_may_record_and_ask_and_nothing_else(
    folder: Path, autojump_clock: MockClock
) -> None:
    plurals = {
        "Namespace": "api/v1/namespaces",
        "ServiceAccount": "api/v1/namespaces/{}/serviceaccounts",
        "Role": "apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
        "ClusterRole": "apis/rbac.authorization.k8s.io/v1/clusterroles",
        "ClusterRoleBinding": "apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "RoleBinding": "apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    }
    async with served(dialect="kubernetes") as api:
        for one in manifests():
            if one["kind"] in plurals:
                path = plurals[one["kind"]].format(one["metadata"].get("namespace"))
                (await api.ask("POST", f"/{path}?fieldValidation=Strict", one)).expect(201)
        account = "/api/v1/namespaces/rewound-flight/serviceaccounts/rewound-flight"
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        made = (await api.ask("POST", f"{account}/token", review)).expect(201)
        token = made["status"]["token"]
        session = session_to(api, token)
        async with flying(api, folder, session=session) as one:
            await one.begun()
            assert await shown(one, "/api/v1/namespaces") == 403  # the cluster was asked, and said so
            document = await one.document()
            assert document["problem"] == "" and not [
                gap for gap in document["gaps"] if gap["why"] == "refused"
            ]
            # What exists has arrived at the beginning of watches: the account needs no more for that.
            assert ("/api/v1/pods", "watch") in session.sent and ("/api/v1/pods", "list") not in session.sent
        leases = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
        sender = Sender(lambda: Session(session_to(api, token).target))
        lease = Lease(sender, "rewound-flight", "rewound-flight")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lease.run)
            with trio.fail_after(600):
                await lease.wait(held=True)
                await trio.sleep(30)  # it is renewed, too
            assert lease.held and not lease.problem
            await lease.release()
            nursery.cancel_scope.cancel()
        sender.close()
        for method, path in (
            ("GET", leases.format("rewound-flight") + "/other"),
            ("DELETE", leases.format("rewound-flight") + "/rewound-flight"),
            ("GET", leases.format("kube-system") + "/rewound-flight"),
            ("POST", leases.format("kube-system")),
            ("GET", "/api/v1/namespaces/default/configmaps/x"),
            ("DELETE", "/api/v1/namespaces/default/pods/x"),
            ("POST", "/api/v1/namespaces/default/configmaps"),
            ("GET", "/api/v1/namespaces/default"),
        ):
            body = config_map("x") if method == "POST" else None
            if body is not None and "leases" in path:
                body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "x"}}
            assert (await api.ask(method, path, body, token=token)).status == 403, path
