"""The commands against the real server, by its admin.kubeconfig."""

from __future__ import annotations

import base64
import hmac
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from rewound.client.certificates import make_request
from rewound.gateway.settings.settings import ControllerSettings
from tests.client.command import Ended, runner
from tests.client.files import encoded
from tests.gateway.api import Api
from tests.gateway.https import served_securely

AsyncRun = Callable[..., Awaitable[Ended]]


@pytest.fixture
def rewound(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> AsyncRun:
    """The command blocks, so it runs in a thread while the server runs in the event loop."""
    run = runner(tmp_path, capsys, monkeypatch)

    async def in_thread(*arguments: object) -> Ended:
        return await trio.to_thread.run_sync(run, *arguments)

    return in_thread


def admin(api: Api) -> tuple[str, Path]:
    return "--kubeconfig", api.settings.kubeconfig


async def who(api: Api, token: str) -> str:
    """The user that the server authenticates with a token."""
    path = api.path("tokenreviews")
    review = (await api.ask("POST", path, {"spec": {"token": token}})).expect(201)
    return str(review["status"]["user"].get("username", ""))


@pytest.mark.parametrize("dialect", ["cluster", "kubernetes"])
async def test_token_of_an_account_signs_in(rewound: AsyncRun, dialect: str) -> None:
    async with served_securely(dialect=dialect) as api:
        ended = await rewound("token", "default", "--duration", "10m", *admin(api))
        assert (ended.code, ended.err) == (0, "")
        assert await who(api, ended.out.strip()) == "system:serviceaccount:default:default"
        refused = await rewound("token", "nobody", *admin(api))
        assert (refused.code, refused.out) == (1, "")
        hint = "this is the namespace default: give another with --namespace or as NAMESPACE/NAME"
        assert refused.err == f'rewound: serviceaccounts "nobody" not found; {hint}\n'


async def test_kubeconfig_of_an_account_and_of_a_user_sign_in(rewound: AsyncRun, tmp_path: Path) -> None:
    async with served_securely() as api:
        made = await rewound("kubeconfig", "account", "default/default", "-o", "account", *admin(api))
        assert made.code == 0
        folder = api.settings.data_dir
        made = await rewound("kubeconfig", "user", "bob", "--group", "system:masters", "--data-dir", folder)
        assert made.code == 0
        for name, code in (("account", 1), ("bob.kubeconfig", 0)):
            assert (await rewound("can-i", "delete", "nodes", "--kubeconfig", name)).code == code


@pytest.mark.parametrize("dialect", ["cluster", "kubernetes"])
async def test_user_with_a_certificate_of_the_api_may_what_bindings_allow(
    rewound: AsyncRun, tmp_path: Path, dialect: str
) -> None:
    async with served_securely(dialect=dialect) as api:
        # TLS looks at the real time.
        api.clock.advance(time.time() - api.clock.now() / 1e6)
        made = await rewound("kubeconfig", "user", "alice", "--group", "devs", *admin(api))
        assert (made.code, made.err) == (0, "wrote alice.kubeconfig\n")
        assert (await api.list("certificatesigningrequests"))["items"] == []
        alice = ("--kubeconfig", "alice.kubeconfig")
        ended = await rewound("can-i", "create", "deployments", *alice)
        assert (ended.code, ended.out) == (1, "no\n")
        group = api.path("rolebindings").split("/")[2]
        binding = {
            "metadata": {"name": "devs"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"apiGroup": group, "kind": "Group", "name": "devs"}],
        }
        await api.create("rolebindings", binding)
        ended = await rewound("can-i", "create", "deploy", *alice)
        reason = 'RBAC: allowed by RoleBinding "devs/default" of ClusterRole "edit" to Group "devs"'
        assert (ended.code, ended.out) == (0, f"yes - {reason}\n")
        assert (await rewound("can-i", "create", "deploy", "-n", "other", *alice)).code == 1
        listed = await rewound("can-i", "--list", *alice)
        assert listed.code == 0 and "deployments.apps" in listed.out
        # Alice may not impersonate others; the administrator may impersonate her.
        ended = await rewound("can-i", "get", "pods", "--as", "bob", *alice)
        assert ended.code == 2 and 'User "alice" cannot impersonate' in ended.err
        flags = ("--as", "alice", "--as-group", "devs")
        assert (await rewound("can-i", "create", "deploy", *flags, *admin(api))).out == f"yes - {reason}\n"


async def test_request_for_a_certificate_is_denied(rewound: AsyncRun) -> None:
    async with served_securely() as api:
        spec = {
            "request": encoded(make_request("eve", ["devs"]).pem.decode()),
            "signerName": "cluster.io/api-server-client",
            "usages": ["client auth"],
        }
        await api.create("certificatesigningrequests", {"metadata": {"name": "eve"}, "spec": spec})
        ended = await rewound("certificate", "deny", "eve", "--message", "not you", *admin(api))
        assert (ended.code, ended.out) == (0, "certificatesigningrequest/eve denied\n")
        (condition,) = (await api.get("certificatesigningrequests", "eve"))["status"]["conditions"]
        assert (condition["type"], condition["message"]) == ("Denied", "not you")
        # The server refuses to have both.
        refused = await rewound("certificate", "approve", "eve", *admin(api))
        assert refused.code == 1 and "Approved and Denied conditions are mutually exclusive" in refused.err


async def test_bootstrap_token_signs_in_and_verifies_cluster_info(rewound: AsyncRun, tmp_path: Path) -> None:
    async with served_securely(controllers=ControllerSettings(enable_bootstrap_token_auth=True)) as api:
        token = (await rewound("token", "bootstrap", *admin(api))).out.strip()
        assert await who(api, token) == f"system:bootstrap:{token[:6]}"
        content = api.settings.kubeconfig.read_text()
        body = {"metadata": {"name": "cluster-info"}, "data": {"kubeconfig": content}}
        await api.create("configmaps", body, "cluster-public")
        with trio.fail_after(60):
            while f"jws-kubeconfig-{token[:6]}" not in (
                found := await api.get("configmaps", "cluster-info", "cluster-public")
            ).get("data", {}):
                await trio.lowlevel.checkpoint()
        (tmp_path / "info").write_text(json.dumps(found))
        verify = ("cluster-info", "verify", "--bootstrap-token", token)
        ended = await rewound(*verify, "--file", "info")
        assert (ended.code, ended.err) == (0, "")
        assert ended.out.startswith(f"verified: signed with the token {token[:6]}\n")
        server = f"https://127.0.0.1:{api.addresses.secure[1]}" if api.addresses.secure else ""
        ended = await rewound(*verify, "--server", server)
        assert ended.code == 1 and 'User "system:anonymous" cannot get resource "configmaps"' in ended.err
        await show_to_everybody(api)
        ended = await rewound(*verify, "--server", server)
        assert (ended.code, ended.err) == (0, "")


async def test_kubernetes_dialect_signs_cluster_info_as_kubeadm_verifies_it(
    rewound: AsyncRun, tmp_path: Path
) -> None:
    bootstrap = ControllerSettings(enable_bootstrap_token_auth=True)
    async with served_securely(dialect="kubernetes", controllers=bootstrap) as api:
        token = (await rewound("token", "bootstrap", *admin(api))).out.strip()
        token_id, secret = token.split(".")
        content = api.settings.kubeconfig.read_text()
        body = {"metadata": {"name": "cluster-info"}, "data": {"kubeconfig": content}}
        await api.create("configmaps", body, "kube-public")
        with trio.fail_after(60):
            while f"jws-kubeconfig-{token_id}" not in (
                found := await api.get("configmaps", "cluster-info", "kube-public")
            ).get("data", {}):
                await trio.lowlevel.checkpoint()
        header, _, signature = found["data"][f"jws-kubeconfig-{token_id}"].split(".")
        payload = base64.urlsafe_b64encode(content.encode()).rstrip(b"=").decode()
        made = hmac.digest(secret.encode(), f"{header}.{payload}".encode(), "sha256")
        assert signature == base64.urlsafe_b64encode(made).rstrip(b"=").decode()
        (tmp_path / "info").write_text(json.dumps(found))
        verify = ("cluster-info", "verify", "--bootstrap-token", token, "--file", "info")
        assert (await rewound(*verify)).code == 0


async def show_to_everybody(api: Api) -> None:
    """As the command's documentation describes."""
    rule = {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": ["cluster-info"],
        "verbs": ["get"],
    }
    await api.create("roles", {"metadata": {"name": "cluster-info"}, "rules": [rule]}, "cluster-public")
    group = "rbac.authorization.cluster.io"
    binding = {
        "metadata": {"name": "cluster-info"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "cluster-info"},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": "system:unauthenticated"}],
    }
    await api.create("rolebindings", binding, "cluster-public")
