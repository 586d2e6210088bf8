"""Conversion webhooks that fail, lie or attack: what clients get, and what stays stored."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest

from tests.actors.object_store import Document
from tests.api.custom.converting import converting
from tests.api.custom.kinds import GROUP, MERGE
from tests.gateway.outgoing.https_peer import Reply, pki

SINGLE = f"conversion webhook for {GROUP}/v1, Kind=Widget"
LISTED = f"conversion webhook for {GROUP}/v2, Kind=WidgetList"

Change = Callable[[Any], Any]  # of the response


def _response(**members: Any) -> Change:
    def change(right: Any) -> Any:
        return {**right, "response": {**right["response"], **members}}

    return change


def _objects(change: Callable[[Any], Any]) -> Change:
    def changed(right: Any) -> Any:
        for one in right["response"]["convertedObjects"]:
            change(one)
        return right

    return changed


def _metadata(**members: Any) -> Change:
    return _objects(lambda one: one["metadata"].update(members))


BAD_LABEL = (
    'metadata.labels: Invalid value: "no!": a valid label must be an empty string or consist of alphanumeric '
    "characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or "
    "'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
WRONG: dict[str, tuple[Change, str]] = {
    "uid of the review": (
        _response(uid="other"),
        f'{SINGLE} failed: expected response.uid="UID", got "other"',
    ),
    "kind of the review": (
        lambda right: {**right, "kind": "Review"},
        f"{SINGLE} failed: expected webhook response of apiextensions.cluster.io/v1, Kind=ConversionReview, "
        "got apiextensions.cluster.io/v1, Kind=Review",
    ),
    "no response": (lambda right: {**right, "response": None}, f"{SINGLE} failed: no response provided"),
    "refusal": (
        _response(result={"status": "Failed", "message": "not today"}),
        f"{SINGLE} failed: not today",
    ),
    "refusal without a message": (
        _response(result={"status": "Failed"}),
        f"{SINGLE} failed: response.result.status was 'Failed', not 'Success'",
    ),
    "no objects": (_response(convertedObjects=[]), f"{SINGLE} returned 0 objects, expected 1"),
    "no list": (_response(convertedObjects=None), f"{SINGLE} returned 0 objects, expected 1"),
    "version": (
        _objects(lambda one: one.update(apiVersion="v1")),
        f"{SINGLE} returned invalid object at index 0: "
        f"invalid groupVersion (expected {GROUP}/v2, received v1)",
    ),
    "kind": (
        _objects(lambda one: one.update(kind="Gadget")),
        f"{SINGLE} returned invalid object at index 0: invalid kind (expected Widget, received Gadget)",
    ),
    "name": (_metadata(name="b"), f"{SINGLE} returned invalid object: must have the same name: a != b"),
    "namespace": (
        _metadata(namespace="kube"),
        f"{SINGLE} returned invalid object: must have the same namespace: default != kube",
    ),
    "uid": (_metadata(uid="x"), f"{SINGLE} returned invalid object: must have the same UID: OWN != x"),
    "invalid labels": (
        _metadata(labels=["k"]),
        f"{SINGLE} returned invalid metadata: invalid metadata.labels of type []interface {{}} in converted object",
    ),
    "label that is no text": (
        _metadata(labels={"k": 1}),
        f"{SINGLE} returned invalid metadata: metadata.labels[k] must be a string, "
        "but is int64 in converted object",
    ),
    "label value": (_metadata(labels={"k": "no!"}), f"{SINGLE} returned invalid metadata: {BAD_LABEL}"),
    "annotation key": (
        _metadata(annotations={"": "x"}),
        f"{SINGLE} returned invalid metadata: [metadata.annotation: Invalid value",
    ),
}


async def test_lies_are_refused_with_the_words_of_kubernetes() -> None:
    async with converting() as server:
        created = await server.create("a")
        for case, (change, message) in WRONG.items():
            server.respond = lambda _, right, change=change: change(right)
            failed = (await server.api.ask("GET", server.path("v2", "a"))).expect(500)
            uid = server.peer.received[-1].document["request"]["uid"]
            expected = message.replace("UID", uid, 1) if case == "uid of the review" else message
            expected = expected.replace("OWN", created["metadata"]["uid"])
            assert failed["message"].startswith(expected), case
            assert (failed["code"], failed.get("reason")) == (500, None), case
        server.respond = None
        assert (await server.get("v2", "a"))["spec"] == {"length": 1}
        assert await server.get("v1", "a") == created


BROKEN: list[tuple[Any, str]] = [
    (Reply(500), "responded with status 500"),
    (Reply(302, headers=(("location", "https://127.0.0.1:1/elsewhere"),)), "127.0.0.1:1 failed"),
    (Reply(body=b"\xff not json"), "the response is not JSON"),
    (Reply(body=b"[]"), "the response is not a JSON object"),
    (Reply(body=b" " * (3 << 20)), "the response has more than"),
    (Reply(body=b'{"kind":[' + b"1," * 200_000 + b"1]}"), "the response has too many values"),
    (Reply(body=b'{"apiVersion":' + b"[" * 2000 + b"]" * 2000 + b"}"), "failed"),
]


async def test_broken_responses_fail_the_request_only() -> None:
    async with converting() as server:
        await server.create("a")
        for reply, message in BROKEN:
            server.respond = lambda *_, reply=reply: reply
            for method, path, body in (
                ("GET", server.path("v2", "a"), None),
                ("GET", server.path("v2"), None),
                ("POST", server.path("v2"), server.widget("v2", "b")),
            ):
                failed = (await server.api.ask(method, path, body)).expect(500)
                assert message in failed["message"]
        server.respond = None
        assert (await server.api.ask("GET", server.path("v1", "b"))).status == 404
        assert len((await server.api.ask("GET", server.path("v2"))).expect(200)["items"]) == 1


def _reversed(right: Any) -> Any:
    right["response"]["convertedObjects"].reverse()
    return right


def _without_last(right: Any) -> Any:
    right["response"]["convertedObjects"].pop()
    return right


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            _reversed,
            f"{LISTED} returned invalid converted object at index 0: must have the same name: a != c",
        ),
        (_without_last, f"{LISTED} returned 2 objects, expected 3"),
        (
            _metadata(annotations=3),
            f"{LISTED} returned invalid metadata in object at index 0: "
            "invalid metadata.annotations of type int64 in converted object",
        ),
    ],
)
async def test_lists_check_number_order_and_metadata(change: Change, message: str) -> None:
    async with converting() as server:
        for name in "abc":
            await server.create(name)
        server.respond = lambda _, right: change(right)
        failed = (await server.api.ask("GET", server.path("v2"))).expect(500)
        assert failed["message"] == message


async def test_metadata_other_than_labels_and_annotations_stays() -> None:
    async with converting() as server:
        created = await server.create("a", finalizers=["example.com/x"], labels={"old": "1"})
        changed = _metadata(
            labels={"new": "1"},
            annotations={"n": "2"},
            finalizers=[],
            generation=99,
            creationTimestamp="2000-01-01T00:00:00Z",
            resourceVersion="1",
            ownerReferences=[{"uid": "u"}],
            managedFields=[],
        )
        server.respond = lambda _, right: changed(right)
        shown = (await server.get("v2", "a"))["metadata"]
        rest = {name: part for name, part in created["metadata"].items() if name != "labels"}
        assert shown == {**rest, "labels": {"new": "1"}, "annotations": {"n": "2"}}


async def test_undeclared_fields_of_a_converted_object_are_pruned() -> None:
    async with converting() as server:
        await server.create("a")
        server.respond = lambda _, right: _objects(lambda one: one["spec"].update(extra={"deep": [1]}))(right)
        assert (await server.get("v2", "a"))["spec"] == {"length": 1}


async def test_changed_authority_is_used_for_the_next_call() -> None:
    async with converting() as server:
        await server.create("a")
        untrusted = base64.b64encode((pki() / "untrusted-ca.pem").read_bytes()).decode()
        await server.declare(caBundle=untrusted)
        failed = (await server.api.ask("GET", server.path("v2", "a"))).expect(500)
        assert failed["message"].startswith(f"{SINGLE} failed: ") and "certificate" in failed["message"]
        await server.declare()
        assert (await server.get("v2", "a"))["spec"] == {"length": 1}


async def test_service_is_called_under_its_name() -> None:
    async with converting(certificate="service") as server:
        await server.create("a", size=2)
        service = {
            "metadata": {"name": "hook"},
            "spec": {"type": "ExternalName", "externalName": "127.0.0.1"},
        }
        (await server.api.ask("POST", server.api.path("services"), service)).expect(201)
        address = {"namespace": "default", "name": "hook", "port": server.peer.port, "path": "/there"}
        await server.declare(url=None, service=address)
        assert (await server.get("v2", "a"))["spec"] == {"length": 2}
        assert server.peer.received[-1].target == "/there?timeout=30s"


async def test_object_that_becomes_too_large_is_not_stored() -> None:
    async with converting() as server:
        text = "x" * (2 << 20)
        sent = server.widget("v2", "a")
        sent["spec"]["text"] = text
        server.respond = lambda _, right: _objects(lambda one: one["spec"].update(text=4 * text + "x"))(right)
        failed = (await server.api.ask("POST", server.path("v2"), sent)).expect(500)
        assert failed["message"].endswith(
            "returned invalid object at index 0: it has more than 8388608 bytes"
        )
        assert (await server.api.ask("GET", server.path("v1", "a"))).status == 404


async def test_service_without_endpoints_fails() -> None:
    async with converting() as server:
        await server.create("a")
        await server.declare(url=None, service={"namespace": "default", "name": "hook", "port": 443})
        failed = (await server.api.ask("GET", server.path("v2", "a"))).expect(500)
        assert failed["message"] == f'{SINGLE} failed: service "hook" not found'


def _managers(one: Document) -> list[tuple[str, str]]:
    return [(entry["manager"], entry["apiVersion"]) for entry in one["metadata"].get("managedFields", [])]


async def test_webhook_that_is_down_blocks_no_write_in_the_storage_version() -> None:
    """An entry of another version in managedFields cannot be compared: managedFields are cleared, and the write
    continues.
    """
    async with converting(subresources={"status": {}}) as server:
        api = server.api
        for name in "abcdef":
            await server.create(name, in_version="v2", finalizers=["example.com/x"])
            patched = await server.patch("v1", name, {"spec": {"text": "t"}}, fieldManager="one")
            assert _managers(patched) == [("one", f"{GROUP}/v1"), ("test", f"{GROUP}/v2")]
        server.respond = lambda *_: Reply(500)

        put = await server.get("v1", "b")
        put["spec"]["size"] = 5
        labels = b'[{"op": "add", "path": "/metadata/labels", "value": {"l": "1"}}]'
        json = {"content-type": "application/json-patch+json"}
        writes = {
            "a": await api.ask("PATCH", server.path("v1", "a"), {"spec": {"size": 5}}, headers=MERGE),
            "b": await api.ask("PUT", server.path("v1", "b"), put),
            "c": await api.ask(
                "PATCH", server.path("v1", "c/status"), {"metadata": {"labels": {"l": "1"}}}, headers=MERGE
            ),
            "d": await api.ask("PATCH", server.path("v1", "d"), labels, headers=json),
        }
        for name, response in writes.items():
            written = response.expect(200)
            assert _managers(written) == [], name
            assert await server.get("v1", name) == written
        applied = server.widget("v1", "e", 7)
        applying = {"content-type": "application/apply-patch+yaml"}
        refused = await api.ask(
            "PATCH", server.path("v1", "e"), applied, headers=applying, fieldManager="m", force=True
        )
        assert refused.expect(500)["message"].startswith(f"{SINGLE} failed: ")
        assert len(_managers(await server.get("v1", "e"))) == 2

        (await api.ask("DELETE", server.path("v1", "f"))).expect(200)
        await server.patch("v1", "f", {"metadata": {"finalizers": None}})
        (await api.ask("GET", server.path("v1", "f"))).expect(404)
