"""CONNECT: admission reviews the options of requests that are forwarded, and may change or refuse them."""

from __future__ import annotations

from typing import Any

from rewound.gateway.settings.settings import ProxySettings
from tests.api.webhooks.hooking import DENY, Hooks, adding, hooking
from tests.gateway.proxy.backends import (
    POD,
    Call,
    make_node,
    make_pod,
    proxying,
    raw_client,
    receive_head,
    request_head,
    serving,
)

LOCAL = {"proxy": ProxySettings(allow_local_proxy_targets=True)}
UPGRADE = ("Connection: Upgrade", "Upgrade: SPDY/3.1")


def rule(*resources: str, operation: str = "CONNECT") -> dict[str, Any]:
    return {"operations": [operation], "apiGroups": [""], "apiVersions": ["v1"], "resources": list(resources)}


async def kubelet(call: Call) -> None:
    await call.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")


async def test_review_has_the_options_as_its_object() -> None:
    async with hooking(changed=LOCAL) as hooks:
        api = hooks.api
        await make_pod(api)
        await api.create("nodes", {"metadata": {"name": "n"}})
        await hooks.configure("validating", hooks.hook("a.example.com", rules=[rule("*/*")]))
        await api.ask("POST", f"{POD}/exec?command=sh&command=-c&stdin=true&container=c")
        await api.ask("GET", f"{POD}/attach?stdout=true")
        await api.ask("POST", f"{POD}/portforward?ports=80")
        await api.ask("PUT", f"{POD}:1/proxy/a/b?c=d", b"body")
        await api.ask("GET", "/api/v1/namespaces/default/services/http:s:web/proxy/")
        await api.ask("DELETE", "/api/v1/nodes/n/proxy")
        await api.ask("GET", f"{POD}/log")  # is no connect
        requests = hooks.requests
        assert [
            (one["kind"]["kind"], one["resource"]["resource"], one["subResource"]) for one in requests
        ] == [
            ("PodExecOptions", "pods", "exec"),
            ("PodAttachOptions", "pods", "attach"),
            ("PodPortForwardOptions", "pods", "portforward"),
            ("PodProxyOptions", "pods", "proxy"),
            ("ServiceProxyOptions", "services", "proxy"),
            ("NodeProxyOptions", "nodes", "proxy"),
        ]
        for one in requests:
            assert one["operation"] == "CONNECT" and one["dryRun"] is False
            assert one["oldObject"] is None and one["options"] is None
            assert (
                one["kind"]
                == one["requestKind"]
                == {"group": "", "version": "v1", "kind": one["kind"]["kind"]}
            )
            assert one["object"]["apiVersion"] == "v1" and one["object"]["kind"] == one["kind"]["kind"]
        exec_, attach, forward, proxy, service, node = requests
        assert (exec_["name"], exec_["namespace"], exec_["userInfo"]["username"]) == ("p", "default", "admin")
        assert exec_["object"] == {
            "kind": "PodExecOptions",
            "apiVersion": "v1",
            "stdin": True,
            "container": "c",
            "command": ["sh", "-c"],
        }
        assert attach["object"]["stdout"] is True and forward["object"]["ports"] == [80]
        assert (proxy["name"], proxy["object"]["path"]) == ("p:1", "/a/b")
        assert (service["name"], service["object"]["path"]) == ("http:s:web", "/")
        assert (node["name"], "namespace" in node, "path" in node["object"]) == ("n", False, False)


async def test_webhook_denies_exec_before_anything_is_read() -> None:
    deny = {**DENY, "status": {"message": "no shells here", "code": 403}}
    async with hooking(changed=LOCAL, deny=deny) as hooks:
        await hooks.configure("validating", hooks.hook("a.example.com", "/deny", rules=[rule("pods/exec")]))
        status = (await hooks.api.ask("POST", f"{POD}/exec?command=sh")).expect(403)
        assert status["message"] == 'admission webhook "a.example.com" denied the request: no shells here'
        (await hooks.api.ask("POST", f"{POD}/attach")).expect(404)
        metrics = (await hooks.api.ask("GET", "/metrics")).text
        counted = [
            one for one in metrics.splitlines() if one.startswith("apiserver_admission_webhook_rejection")
        ]
        assert any('operation="CONNECT"' in one for one in counted)


async def test_rights_come_before_admission() -> None:
    async with hooking(changed=LOCAL) as hooks:
        await hooks.configure("validating", hooks.hook("a.example.com", rules=[rule("pods/exec")]))
        status = (await hooks.api.ask("POST", f"{POD}/exec", token="alice-token")).expect(403)
        assert 'cannot create resource "pods/exec"' in status["message"]
        status = (await hooks.api.ask("GET", f"{POD}/exec", token="alice-token")).expect(403)
        assert 'cannot get resource "pods/exec"' in status["message"]
        assert hooks.requests == []


async def test_rules_of_other_operations_and_selectors_do_not_match() -> None:
    async with hooking(changed=LOCAL) as hooks:
        await make_pod(hooks.api, ip="")
        create = hooks.hook("a.example.com", rules=[rule("pods/exec", operation="CREATE")])
        selector = {"matchLabels": {"a": "b"}}
        selected = hooks.hook("b.example.com", rules=[rule("pods/exec")], objectSelector=selector)
        unselected = hooks.hook("c.example.com", rules=[rule("pods/exec")], namespaceSelector=selector)
        await hooks.configure("validating", create, selected, unselected)
        await hooks.api.ask("POST", f"{POD}/exec")
        assert hooks.called() == []


async def test_mutating_webhook_changes_the_options() -> None:
    async with (
        hooking(changed=LOCAL, patch=adding("/command/-", "--safe")) as hooks,
        serving(kubelet, certificate="server") as backend,
    ):
        await make_node(hooks.api, backend.port)
        await make_pod(hooks.api, node="n")
        await hooks.configure("mutating", hooks.hook("a.example.com", "/patch", rules=[rule("pods/exec")]))
        await exec_through(hooks)
        assert backend.calls[0].line == "POST /exec/default/p/c?command=sh&command=--safe HTTP/1.1"


async def exec_through(hooks: Hooks) -> None:
    async with raw_client(hooks.api) as client:
        await client.send_all(request_head("POST", f"{POD}/exec?command=sh", *UPGRADE))
        head, _ = await receive_head(client)
        assert head.startswith("HTTP/1.1 101 ")


async def test_always_deny_denies_connects() -> None:
    async with proxying(enable_admission_plugins="AlwaysDeny") as api:
        status = (await api.ask("POST", f"{POD}/exec")).expect(403)
        assert "admission control is denying all modifications" in status["message"]
