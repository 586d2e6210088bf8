"""Webhooks behind Services, and the credentials with which the server calls webhooks."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from rewound.actors.access.remote.kubeconfig_file import parse_kubeconfig
from rewound.actors.admission.configuration import AdmissionConfigurationError, PluginConfiguration
from rewound.actors.admission.webhooks.credentials import WebhookCredentials, read_credentials
from rewound.actors.admission.webhooks.hook import ServiceAddress
from rewound.actors.admission.webhooks.services import Services, Unresolved
from rewound.actors.names import CLUSTER
from rewound.gateway.settings.checks import SettingsError
from rewound.gateway.settings.settings import AdmissionSettings
from tests.actors.object_store import open_store
from tests.api.webhooks.hooking import Hooks, hooking
from tests.cases import cases
from tests.gateway.api import served
from tests.gateway.outgoing.https_peer import pki


def kubeconfig(folder: Path, current: str = "", **users: dict[str, Any]) -> Path:
    document = {
        "clusters": [{"name": "any", "cluster": {"server": "https://unused"}}],
        "users": [{"name": name, "user": user} for name, user in users.items()],
        "contexts": [{"name": "c", "context": {"cluster": "any", "user": current}}],
        "current-context": "c" if current else "",
    }
    file = folder / "hooks.kubeconfig"
    file.write_text(yaml.safe_dump(document))
    return file


def admission(folder: Path, file: Any, plugin: str = "ValidatingAdmissionWebhook") -> AdmissionSettings:
    inner = {
        "apiVersion": "apiserver.config.cluster.io/v1",
        "kind": "WebhookAdmissionConfiguration",
        "kubeConfigFile": str(file),
    }
    document = {
        "apiVersion": "apiserver.config.cluster.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [{"name": plugin, "configuration": inner}],
    }
    path = folder / "admission.yaml"
    path.write_text(yaml.safe_dump(document))
    return AdmissionSettings(admission_control_config_file=path)


def of_service(hooks: Hooks, port: int = 443, path: str | None = None) -> dict[str, Any]:
    made = hooks.hook("a.example.com")
    service = {"namespace": "default", "name": "hook", "port": port, **({"path": path} if path else {})}
    return {**made, "clientConfig": {"caBundle": made["clientConfig"]["caBundle"], "service": service}}


async def test_service_is_resolved_from_its_endpoints() -> None:
    async with open_store() as store:
        services = Services(store.journal)

        async def resolved(port: int = 443) -> str:
            try:
                return await services.resolve(ServiceAddress("default", "hook", port))
            except Unresolved as error:
                return str(error)

        assert await resolved() == 'service "hook" not found'
        ports = [{"name": "https", "port": 443, "targetPort": 9443}, {"name": "other", "port": 80}]
        await store.create("services", {"metadata": {"name": "hook"}, "spec": {"ports": ports}})
        assert await resolved() == 'no endpoints available for service "hook"'
        ports = [{"name": "https", "port": 9443}, {"name": "other", "port": 1}]
        subsets = [{"addresses": [{"ip": "10.0.0.1"}], "ports": ports}]
        await store.create("endpoints", {"metadata": {"name": "hook"}, "subsets": subsets})
        assert await resolved() == "10.0.0.1:9443"
        assert await resolved(80) == "10.0.0.1:1"
        assert await resolved(444) == 'no service port 444 found for service "hook"'


async def test_service_is_called_by_its_own_name_wherever_it_is(tmp_path: Path) -> None:
    users = {"*.default.svc:1": {"token": "wrong"}, "*": {"token": "secret"}}
    changed = {"admission": admission(tmp_path, kubeconfig(tmp_path, **users))}
    async with hooking(certificate="service", changed=changed) as hooks:
        spec = {"type": "ExternalName", "externalName": "localhost"}
        await hooks.api.create("services", {"metadata": {"name": "hook"}, "spec": spec})
        await hooks.configure("validating", of_service(hooks, hooks.peer.port, "/review"))
        (await hooks.create("a")).expect(201)
        [received] = hooks.peer.received
        assert received.target == "/review?timeout=10s"
        assert received.headers["host"] == f"hook.default.svc:{hooks.peer.port}"
        assert received.headers["authorization"] == "Bearer secret"
        (await hooks.api.ask("DELETE", hooks.api.path("services", "default", "hook"))).expect(200)
        missing = (await hooks.create("b")).expect(500)
        assert 'failed to call webhook: service "hook" not found' in missing["message"]


async def test_certificate_of_another_name_is_refused() -> None:
    async with hooking(certificate="other") as hooks:
        await hooks.configure("validating", hooks.hook("a.example.com"))
        refused = (await hooks.create("a")).expect(500)
        assert "certificate verify failed" in refused["message"]
        assert hooks.called() == []


async def test_without_ca_bundle_the_roots_of_the_system_count(monkeypatch: pytest.MonkeyPatch) -> None:
    async with hooking() as hooks:
        made = hooks.hook("a.example.com")
        del made["clientConfig"]["caBundle"]
        await hooks.configure("validating", made)
        assert "certificate verify failed" in (await hooks.create("a")).expect(500)["message"]
        assert hooks.called() == []
    monkeypatch.setenv("SSL_CERT_FILE", str(pki() / "ca.pem"))  # the roots of this system
    async with hooking() as hooks:
        made = hooks.hook("a.example.com")
        del made["clientConfig"]["caBundle"]
        await hooks.configure("validating", made)
        (await hooks.create("a")).expect(201)


async def test_credentials_by_host_and_port(tmp_path: Path) -> None:
    certificate = {
        name: base64.b64encode((pki() / file).read_bytes()).decode()
        for name, file in (("client-certificate-data", "client.pem"), ("client-key-data", "client.key"))
    }
    users = {"*": {"username": "u", "password": "p", **certificate}}
    changed = {"admission": admission(tmp_path, kubeconfig(tmp_path, **users))}
    async with hooking(changed=changed) as hooks:
        await hooks.configure("validating", hooks.hook("a.example.com", "/validating"))
        await hooks.configure("mutating", hooks.hook("a.example.com", "/mutating"))
        (await hooks.create("a")).expect(201)
        mutating, validating = hooks.peer.received
        assert (mutating.client, mutating.headers.get("authorization")) == ("", None), "its own configuration"
        assert (validating.client, validating.headers["authorization"]) == ("client", "Basic dTpw")


def credentials(current: str, *names: str) -> WebhookCredentials:
    document = {
        "users": [{"name": name, "user": {"token": name}} for name in names],
        "clusters": [{"name": "any", "cluster": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "any", "user": current}}],
        "current-context": "c" if current else "",
    }
    return WebhookCredentials(parse_kubeconfig(yaml.safe_dump(document).encode(), Path("f")))


ORDER = (
    "hook.ns.svc:443",
    "*.ns.svc:443",
    "*.svc:443",
    "hook.ns.svc",
    "*.ns.svc",
    "*.svc",
    "*",
)


@cases("first", range(len(ORDER)))
def test_more_specific_users_take_precedence(first: int) -> None:
    left = ORDER[first:]
    assert credentials("", *reversed(left)).user("hook.ns.svc", 443).token == left[0]


def test_users_without_port_are_for_443_only() -> None:
    some = credentials("", "hook.ns.svc", "*.ns.svc:8443")
    assert some.user("hook.ns.svc", 8443).token == "*.ns.svc:8443"
    assert some.user("hook.ns.svc", 9443).token == ""
    assert credentials("me", "me").user("hook.ns.svc", 9443).token == "me"
    assert WebhookCredentials().user("hook.ns.svc", 443).token == ""


def test_errors_name_file_and_field(tmp_path: Path) -> None:
    def given(**document: Any) -> PluginConfiguration:
        return PluginConfiguration(tmp_path / "f", "", document)

    v1 = {"apiVersion": "apiserver.config.cluster.io/v1", "kind": "WebhookAdmissionConfiguration"}
    old = {"apiVersion": "apiserver.config.cluster.io/v1alpha1", "kind": "WebhookAdmission"}
    assert read_credentials(given(**old), CLUSTER).kubeconfig is None
    assert read_credentials(None, CLUSTER).kubeconfig is None
    wrong = kubeconfig(tmp_path, a={"client-certificate": "none.pem"})
    for document, text in (
        ({"kind": "Other"}, "kind: write apiVersion: apiserver.config.cluster.io/v1"),
        ({**v1, "kubeconfigFile": "x"}, "kubeconfigFile: is not known; there are kubeConfigFile"),
        ({**v1, "kubeConfigFile": "relative"}, "kubeConfigFile: must be an absolute file path"),
        ({**v1, "kubeConfigFile": str(tmp_path / "none")}, "none: cannot be read"),
        ({**v1, "kubeConfigFile": str(wrong)}, "users[a].user.client-key: is missing"),
    ):
        with pytest.raises(AdmissionConfigurationError) as refused:
            read_credentials(given(**document), CLUSTER)
        assert text in str(refused.value)


async def test_server_does_not_start_with_a_wrong_file(tmp_path: Path) -> None:
    settings = admission(tmp_path, tmp_path / "none")
    wanted = pytest.RaisesExc(SettingsError, match="--admission-control-config-file")
    with pytest.RaisesGroup(wanted, flatten_subgroups=True, allow_unwrapped=True):
        async with served(admission=settings):
            pass
