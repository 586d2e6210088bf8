"""1,200 requests of one user wait for an external service that hangs (a webhook or a server), or for a future
version.

The client that they might delay is another user of the same priority level.
"""

from __future__ import annotations

import json
import ssl
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, Final

import trio

from benchmarks.attacks.target import ADMIN, Run, Target, attacks, head, many, post, read_response
from benchmarks.baselines.certificate import write_certificate

HANGING, OTHER = "benchmark-hanging", "benchmark-other"  # tokens
USERS: Final = tuple(f"{token},{token},{token}-uid" for token in (HANGING, OTHER))
FLAGS: Final = ("--allow-local-proxy-targets",)
AT_ONCE: Final = 1200
MAPS = "/api/v1/namespaces/default/configmaps"
GROUP, VERSION = "hanging.example.com", "v1"
REGISTRATIONS = "/apis/apiregistration.cluster.io/v1/apiservices"
_RBAC = "rbac.authorization.cluster.io"
# Both users may do everything, but no request of theirs is exempt from flow control.
GRANTS: dict[str, dict[str, Any]] = {
    f"/apis/{_RBAC}/v1/clusterroles": {
        "metadata": {"name": "all"},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
    },
    f"/apis/{_RBAC}/v1/clusterrolebindings": {
        "metadata": {"name": "all"},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "all"},
        "subjects": [{"apiGroup": _RBAC, "kind": "User", "name": token} for token in (HANGING, OTHER)],
    },
}


async def create(target: Target, path: str, document: dict[str, Any]) -> None:
    async with await target.connect() as stream:
        await stream.send_all(post(path, json.dumps(document).encode(), token=ADMIN))
        status = await read_response(stream)
        if status != 201:
            raise SystemExit(f"POST {path}: status {status}")


async def _hold(stream: trio.abc.Stream) -> None:
    """Accept connections, and never respond."""
    async with stream:
        await trio.sleep_forever()


async def _webhook(target: Target) -> None:
    async with trio.open_nursery() as nursery:
        [listener] = await nursery.start(partial(trio.serve_tcp, _hold, 0, host="127.0.0.1"))
        port = listener.socket.getsockname()[1]
        hook = {
            "name": "hangs.example.com",
            "clientConfig": {"url": f"https://127.0.0.1:{port}"},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "rules": [
                {
                    "operations": ["CREATE"],
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "resources": ["configmaps"],
                }
            ],
        }
        path = "/apis/admissionregistration.cluster.io/v1/validatingwebhookconfigurations"
        await create(target, path, {"metadata": {"name": "hangs"}, "webhooks": [hook]})
        body = json.dumps({"metadata": {"generateName": "a-"}}).encode()
        await many(target, AT_ONCE, post(MAPS, body, token=HANGING))
        nursery.cancel_scope.cancel()


async def _discover(stream: trio.abc.Stream) -> None:
    """Respond to probes, and to nothing else."""
    resource = {
        "name": "things",
        "singularName": "thing",
        "namespaced": True,
        "kind": "Thing",
        "verbs": ["list"],
    }
    groups = {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{GROUP}/{VERSION}",
        "resources": [resource],
    }
    body = json.dumps(groups).encode()
    response = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    async with stream:
        try:
            while data := await stream.receive_some():
                if data.split(b" ", 2)[1] != f"/apis/{GROUP}/{VERSION}".encode():
                    await trio.sleep_forever()
                await stream.send_all(response + body)
        except trio.BrokenResourceError:
            pass


async def _until_available(target: Target) -> None:
    """Requests of a server that is not available are refused, which is another attack."""
    with trio.fail_after(60):
        async with await target.connect() as stream:
            while True:
                await stream.send_all(head("GET", f"/apis/{GROUP}/{VERSION}", token=ADMIN))
                if await read_response(stream) == 200:
                    return
                await trio.sleep(0.05)


async def _aggregated(target: Target) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.TemporaryDirectory() as folder:
        context.load_cert_chain(*write_certificate(Path(folder)))
    async with trio.open_nursery() as nursery:
        serve = partial(trio.serve_ssl_over_tcp, _discover, 0, context, host="127.0.0.1")
        [listener] = await nursery.start(serve)
        port = listener.transport_listener.socket.getsockname()[1]
        service = {
            "metadata": {"name": "hangs"},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        }
        await create(target, "/api/v1/namespaces/default/services", service)
        spec = {
            "group": GROUP,
            "version": VERSION,
            "service": {"namespace": "default", "name": "hangs", "port": port},
            "insecureSkipTLSVerify": True,
            "groupPriorityMinimum": 100,
            "versionPriority": 10,
        }
        await create(target, REGISTRATIONS, {"metadata": {"name": f"{VERSION}.{GROUP}"}, "spec": spec})
        await _until_available(target)
        path = f"/apis/{GROUP}/{VERSION}/namespaces/default/things"
        await many(target, AT_ONCE, head("GET", path, token=HANGING))
        nursery.cancel_scope.cancel()


async def _version(target: Target) -> None:
    await many(target, AT_ONCE, head("GET", f"{MAPS}/victim?resourceVersion=9999999999", token=HANGING))


_OUTSIDE: dict[str, Run] = {
    "1,200 writes that wait for a webhook that hangs": _webhook,
    "1,200 requests of an aggregated server that hangs": _aggregated,
    "1,200 gets at a version that never comes": _version,
}
USERS_OUTSIDE = attacks("any user", _OUTSIDE, other=OTHER)
