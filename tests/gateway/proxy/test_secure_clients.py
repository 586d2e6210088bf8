"""Forwarding for clients of the secure port: over HTTP/1.1 and HTTP/2, and upgrades."""

from __future__ import annotations

import trio

from rewound.gateway.settings.settings import ProxySettings
from tests.gateway.https import Kubeconfig, secure_client, served_securely, trusting
from tests.gateway.proxy.backends import POD, Call, make_pod, receive_all, receive_head, request_head, serving

LOCAL = ProxySettings(allow_local_proxy_targets=True)


async def respond(call: Call) -> None:
    if call.header("upgrade"):
        await call.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
        while data := await call.read():
            await call.send(data)
            if data.endswith(b"."):
                return
        return
    body = await call.body()
    await call.reply(b"%d" % len(body))


async def test_clients_of_the_secure_port() -> None:
    async with serving(respond) as backend, served_securely(proxy=LOCAL) as api:
        await make_pod(api)
        context = trusting(Kubeconfig(api.settings.kubeconfig).authority)
        path = f"{POD}:{backend.port}/proxy/x"
        authorization = {"authorization": "Bearer admin-token"}
        for http2, version in ((False, "HTTP/1.1"), (True, "HTTP/2")):
            async with secure_client(api, context, http2=http2) as client:
                sent = await client.post(path, content=bytes(4 << 20), headers=authorization)
                assert (sent.http_version, sent.content) == (version, b"%d" % (4 << 20))
        assert api.addresses.secure is not None
        plain = await trio.open_tcp_stream(*api.addresses.secure)
        context.set_alpn_protocols(["http/1.1"])
        stream = trio.SSLStream(plain, context, server_hostname="127.0.0.1", https_compatible=True)
        async with stream:
            await stream.send_all(request_head("GET", path, "Connection: Upgrade", "Upgrade: x") + b"early,")
            head, rest = await receive_head(stream)
            assert head.startswith("HTTP/1.1 101 ")
            await stream.send_all(bytes(100_000) + b".")
            assert rest + await receive_all(stream) == b"early," + bytes(100_000) + b"."
