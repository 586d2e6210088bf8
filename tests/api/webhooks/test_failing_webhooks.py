"""Webhooks that fail or return nonsense: the write is refused with failurePolicy Fail, and continues with Ignore."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import orjson
import pytest
import trio
from trio.testing import MockClock

from rewound.gateway.outgoing import webhook
from tests.api.webhooks.hooking import adding, hooking, patching
from tests.gateway.outgoing.https_peer import Reply

OTHER_TYPE = b'{"apiVersion": "admission.cluster.io/v1beta1", "kind": "AdmissionReview", "response": {}}'
OTHER_KIND = b'{"apiVersion": "admission.cluster.io/v1", "kind": "ConfigMap", "response": {"allowed": true}}'
BAD: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "redirect": (lambda _: Reply(307), "responded with status 307"),
    "error": (lambda _: Reply(500), "responded with status 500"),
    "vanishing": (lambda _: None, "failed to call webhook"),
    "garbage": (lambda _: Reply(body=b"no review"), "the response is not JSON"),
    "huge": (
        lambda _: Reply(body=b"[" + b" " * (6 << 20) + b"]"),
        "the response has more than 52",
    ),
    "wide": (
        lambda _: Reply(body=b'{"a":[' + b"[]," * 210_000 + b"1]}"),
        "the response has more than 200000 values",
    ),
    "uid": (lambda _: {"uid": "another"}, 'got "another"'),
    "version": (
        lambda _: Reply(body=OTHER_TYPE),
        "converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion",
    ),
    "kind": (
        lambda _: Reply(body=OTHER_KIND),
        'failed to call webhook: no kind "ConfigMap" is registered for version "admission.cluster.io/v1"',
    ),
    "nothing": (
        lambda request: Reply(body=orjson.dumps({"response": {"uid": request["uid"], "allowed": True}})),
        "expected webhook response of admission.cluster.io/v1, Kind=AdmissionReview, got /, Kind=",
    ),
    "status": (
        lambda _: Reply(body=b'{"apiVersion": "v1", "kind": "Status", "message": "tired", "code": 418}'),
        "failed to call webhook: converting (v1.Status) to (v1.AdmissionReview): unknown conversion",
    ),
    "absent": (
        lambda _: Reply(body=b'{"apiVersion": "admission.cluster.io/v1", "kind": "AdmissionReview"}'),
        "webhook response was absent",
    ),
    "allowed": (lambda _: {"allowed": "yes"}, "response.allowed must be true or false"),
    "base64": (lambda _: {"patchType": "JSONPatch", "patch": "%%%"}, "response.patch is not base64"),
    "untyped": (lambda _: {"patch": "W10="}, "response.patch but not response.patchType"),
    "empty": (lambda _: {"patchType": "JSONPatch"}, "response.patchType but not response.patch"),
    "merge": (lambda _: {"patchType": "Merge", "patch": "W10="}, 'response.patchType of "Merge"'),
    "warnings": (lambda _: {"warnings": [1]}, "response.warnings must be a list of strings"),
}


async def test_bad_responses_are_handled_by_the_failure_policy() -> None:
    async with hooking(**{name: respond for name, (respond, _) in BAD.items()}) as hooks:
        for name, (_, text) in BAD.items():
            await hooks.configure("mutating", hooks.hook("a.example.com", f"/{name}"))
            refused = (await hooks.create("refused")).expect(500)
            assert refused["reason"] == "InternalError"
            assert refused["message"].startswith(
                'Internal error occurred: failed calling webhook "a.example.com": '
            )
            assert text in refused["message"], name
            [cause] = refused["details"]["causes"]
            assert refused["message"] == f"Internal error occurred: {cause['message']}"
            assert hooks.called() == [f"/{name}"], "no second try"
            await hooks.remove("mutating")
            ignored = hooks.hook("a.example.com", f"/{name}", failurePolicy="Ignore")
            await hooks.configure("mutating", ignored)
            (await hooks.create(f"made-{name}")).expect(201)
            hooks.called()
            await hooks.remove("mutating")


async def test_validating_webhook_may_not_patch() -> None:
    async with hooking(patch=adding("/data/x", "1")) as hooks:
        await hooks.configure("validating", hooks.hook("a.example.com", "/patch"))
        refused = (await hooks.create("a")).expect(500)
        assert "validating webhook may not return response.patch" in refused["message"]


PATCHES: dict[str, tuple[dict[str, Any], int, str]] = {
    "missing": (patching({"op": "remove", "path": "/data/none"}), 500, "InternalError"),
    "unknown": (patching({"op": "jump", "path": "/data"}), 500, "InternalError"),
    "shape": ({"patchType": "JSONPatch", "patch": "e30="}, 500, "InternalError"),
    "type": (adding("/data", 7), 500, "InternalError"),
    "kind": (adding("/kind", "Secret"), 500, "InternalError"),
    "metadata": (patching({"op": "remove", "path": "/metadata"}), 422, "Invalid"),
    "invalid": (adding("/data/bad key", "x"), 422, "Invalid"),
    "namespace": (adding("/metadata/namespace", "other"), 400, "BadRequest"),
    "bomb": (
        patching(
            {"op": "add", "path": "/data/x", "value": "x" * 4096},
            *[{"op": "copy", "from": "/data", "path": f"/data{index}"} for index in range(2000)],
        ),
        500,
        "InternalError",
    ),
}


async def test_patches_that_cannot_be_applied_store_nothing() -> None:
    async with hooking(**{name: response for name, (response, _, _) in PATCHES.items()}) as hooks:
        for name, (_, status, reason) in PATCHES.items():
            await hooks.configure("mutating", hooks.hook("a.example.com", f"/{name}", failurePolicy="Ignore"))
            refused = (await hooks.create("a")).expect(status)
            assert refused["reason"] == reason, name
            await hooks.remove("mutating")
        assert (await hooks.api.list("configmaps"))["items"] == []


async def test_update_keeps_its_identity_when_a_patch_removes_metadata() -> None:
    async with hooking(metadata=patching({"op": "remove", "path": "/metadata"})) as hooks:
        before = (await hooks.create("a")).expect(201)
        await hooks.configure("mutating", hooks.hook("a.example.com", "/metadata"))
        refused = await hooks.api.ask("PUT", hooks.api.path("configmaps", "default", "a"), before)
        assert refused.status == 422
        assert await hooks.api.get("configmaps", "a") == before


async def test_patch_of_a_delete_is_refused() -> None:
    async with hooking(patch=adding("/data/x", "1")) as hooks:
        (await hooks.create("a")).expect(201)
        await hooks.configure("mutating", hooks.hook("a.example.com", "/patch"))
        refused = await hooks.api.ask("DELETE", hooks.api.path("configmaps", "default", "a"))
        assert refused.expect(500)["message"] == (
            'Internal error occurred: admission webhook "a.example.com" attempted to modify the object, '
            "which is not supported for this operation"
        )
        await hooks.api.get("configmaps", "a")


async def test_dripping_webhook_fails_after_its_timeout(mock_clock: MockClock) -> None:
    sent = 0
    dripped = trio.Event()

    async def drip() -> AsyncIterator[bytes]:
        nonlocal sent, dripped
        while True:
            yield b" "
            sent += 1
            dripped.set()
            await trio.sleep(1)

    async with hooking(drip=lambda _: drip()) as hooks:
        await hooks.configure("mutating", hooks.hook("a.example.com", "/drip", timeoutSeconds=3))
        refused: list[dict[str, Any]] = []

        async def write() -> None:
            refused.append((await hooks.create("a")).expect(500))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            for _ in range(3):
                await dripped.wait()
                dripped = trio.Event()
                mock_clock.jump(1)
            mock_clock.jump(0.5)
        assert "context deadline exceeded" in refused[0]["message"]


async def test_hanging_webhook_fails_after_its_timeout(mock_clock: MockClock) -> None:
    called = trio.Event()

    async def hang(_: Any) -> None:
        called.set()
        await trio.sleep_forever()

    async with hooking(hang=hang) as hooks:
        await hooks.configure("validating", hooks.hook("a.example.com", "/hang", timeoutSeconds=3))
        refused: list[dict[str, Any]] = []

        async def write() -> None:
            refused.append((await hooks.create("a")).expect(500))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            await called.wait()
            other = await hooks.api.ask(
                "POST", "/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}}
            )
            assert other.status == 201, "other writes go on"
            mock_clock.jump(3.5)
        assert "context deadline exceeded" in refused[0]["message"]
        assert hooks.peer.received[0].target == "/hang?timeout=3s"


@pytest.mark.parametrize("kind", ["mutating", "validating"])
async def test_write_that_waits_for_others_fails_after_its_timeout(
    kind: str, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "MAX_CALLS", 1)
    called = trio.Event()

    async def hang(request: dict[str, Any]) -> dict[str, Any]:
        if request["name"] != "first":
            called.set()
            await trio.sleep_forever()
        return {}

    async with hooking(hang=hang) as hooks:
        await hooks.configure(kind, hooks.hook("a.example.com", "/hang", timeoutSeconds=3))
        (await hooks.create("first")).expect(201)
        refused: list[str] = []

        async def write(name: str) -> None:
            refused.append((await hooks.create(name)).expect(500)["message"])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write, "a")
            await called.wait()
            nursery.start_soon(write, "b")
            with trio.fail_after(60):
                while (
                    "\nrewound_admission_calls_total 3" not in (await hooks.api.ask("GET", "/metrics")).text
                ):
                    await trio.lowlevel.checkpoint()
            mock_clock.jump(3.5)
        assert len(refused) == 2 and all("context deadline exceeded" in one for one in refused)
        assert [one["name"] for one in hooks.requests] == ["first", "a"]


@pytest.mark.parametrize("kind", ["mutating", "validating"])
async def test_write_that_waits_for_others_asks_the_webhooks_of_when_it_began(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "MAX_CALLS", 1)
    called, released = trio.Event(), trio.Event()

    async def hold(request: dict[str, Any]) -> dict[str, Any]:
        if request["name"] == "a":
            called.set()
            await released.wait()
        return {}

    async with hooking(hold=hold) as hooks:
        await hooks.configure(kind, hooks.hook("a.example.com", "/hold", timeoutSeconds=30))
        (await hooks.create("first")).expect(201)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hooks.create, "a")
            await called.wait()
            nursery.start_soon(hooks.create, "b")
            with trio.fail_after(60):
                while (
                    "\nrewound_admission_calls_total 3" not in (await hooks.api.ask("GET", "/metrics")).text
                ):
                    await trio.lowlevel.checkpoint()
            await hooks.remove(kind)
            released.set()
        assert [one["name"] for one in hooks.requests] == ["first", "a", "b"]
