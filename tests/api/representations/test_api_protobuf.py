"""Built-in kinds in protobuf, read by a client with Google's library."""

from __future__ import annotations

from tests.cases import cases
from tests.gateway.api import Api, ApiResponse, config_map, served
from tests.gateway.protobuf_client import MAGIC, MEDIA, message, unwrapped, wrapped
from tests.gateway.shared_server import shared

PATH = "/api/v1/namespaces/default/configmaps"
ASKED = {"accept": MEDIA}
SENT = {"content-type": MEDIA}


async def get(api: Api, path: str, status: int = 200, **headers: str) -> ApiResponse:
    response = await api.ask("GET", path, headers={**ASKED, **headers})
    assert (response.status, response.headers["content-type"]) == (status, MEDIA)
    return response


async def test_object_in_protobuf() -> None:
    async with served() as api:
        made = await api.create(
            "configmaps",
            {
                "metadata": {"name": "a", "labels": {"app": "web", "zone": ""}, "finalizers": ["x.io/y"]},
                "data": {"k": "ü\n", "empty": ""},
                "binaryData": {"b": "AP8="},
                "immutable": True,
            },
        )
        found = unwrapped((await get(api, f"{PATH}/a")).body)
        metadata = found.metadata
        assert (metadata.name, metadata.namespace, metadata.uid) == ("a", "default", made["metadata"]["uid"])
        assert metadata.resourceVersion == made["metadata"]["resourceVersion"]
        assert metadata.creationTimestamp.seconds > 0
        assert dict(metadata.labels) == {"app": "web", "zone": ""}
        assert list(metadata.finalizers) == ["x.io/y"]
        assert dict(found.data) == {"k": "ü\n", "empty": ""}
        assert dict(found.binaryData) == {"b": b"\x00\xff"}
        assert found.immutable is True


async def test_list_and_pages_in_protobuf() -> None:
    async with served() as api:
        for name in "abc":
            await api.create("configmaps", config_map(name, k=name))
        found = unwrapped((await get(api, PATH)).body)
        assert [item.data["k"] for item in found.items] == ["a", "b", "c"]
        assert found.metadata.resourceVersion == await api.head()
        page = unwrapped((await get(api, f"{PATH}?limit=2")).body)
        assert (len(page.items), page.metadata.remainingItemCount) == (2, 1)
        rest = unwrapped(
            (await get(api, f"{PATH}?limit=2&continue={getattr(page.metadata, 'continue')}")).body
        )
        assert [item.metadata.name for item in rest.items] == ["c"]


async def test_large_list_is_compressed() -> None:
    async with served() as api:
        for number in range(4):
            await api.create("configmaps", config_map(f"m-{number}", big="x" * 50_000))
        response = await get(api, PATH, **{"accept-encoding": "gzip"})
        assert response.headers["content-encoding"] == "gzip"
        assert len(unwrapped(response.body).items) == 4


async def test_partial_metadata_in_protobuf() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a", k="v"))
        form = f"{MEDIA};as=PartialObjectMetadata;g=meta.cluster.io;v=v1"
        response = await api.ask("GET", f"{PATH}/a", headers={"accept": form})
        assert unwrapped(response.body).metadata.name == "a"
        form = f"{MEDIA};as=PartialObjectMetadataList;g=meta.cluster.io;v=v1"
        response = await api.ask("GET", PATH, headers={"accept": form})
        assert [item.metadata.name for item in unwrapped(response.body).items] == ["a"]


async def test_table_is_not_acceptable_in_protobuf() -> None:
    """Cells may have any type. A client that also accepts JSON gets JSON."""
    async with shared() as api:
        table = ";as=Table;g=meta.cluster.io;v=v1"
        for path in (PATH, f"{PATH}?watch=1"):
            response = await api.ask("GET", path, headers={"accept": MEDIA + table})
            assert response.expect(406)["reason"] == "NotAcceptable"
        response = await api.ask("GET", PATH, headers={"accept": f"application/json{table}, {MEDIA}"})
        assert response.expect(200)["kind"] == "Table"


async def test_failure_is_a_status_in_protobuf() -> None:
    async with served() as api:
        status = unwrapped((await get(api, f"{PATH}/missing", 404)).body)
        assert (status.status, status.reason, status.code) == ("Failure", "NotFound", 404)
        assert (status.details.name, status.details.kind) == ("missing", "configmaps")
        response = await api.ask("POST", PATH, config_map("Not A Name"), headers=ASKED)
        [cause] = unwrapped(response.body).details.causes
        assert (cause.field, cause.reason) == ("metadata.name", "FieldValueInvalid")


async def test_discovery_in_protobuf() -> None:
    async with shared() as api:
        found = unwrapped((await get(api, "/api/v1")).body)
        assert found.groupVersion == "v1"
        [maps] = [one for one in found.resources if one.name == "configmaps"]
        assert (maps.kind, maps.namespaced, "deletecollection" in maps.verbs.items) == (
            "ConfigMap",
            True,
            True,
        )
        for path in ("/api", "/apis", "/apis/apps"):
            await get(api, path)


async def test_documents_without_a_kind_are_json() -> None:
    async with shared() as api:
        response = await api.ask("GET", "/version", headers=ASKED)
        assert response.headers["content-type"] == "application/json"
        assert response.expect(200)["major"] == "1"


async def test_writes_in_protobuf() -> None:
    async with served() as api:
        sent = message("ConfigMap")
        sent.metadata.name, sent.data["k"], sent.binaryData["b"] = "a", "v", b"\x00"
        # Go writes fields that are no pointers even when they are empty.
        sent.metadata.generateName = sent.metadata.uid = sent.metadata.resourceVersion = ""
        sent.metadata.generation = 0
        sent.metadata.creationTimestamp.SetInParent()
        response = await api.ask("POST", PATH, wrapped("v1", "ConfigMap", sent), headers={**SENT, **ASKED})
        assert response.status == 201
        made = unwrapped(response.body)
        stored = await api.get("configmaps", "a")
        assert (stored["data"], stored["binaryData"]) == ({"k": "v"}, {"b": "AA=="})
        assert "generateName" not in stored["metadata"]
        made.data["k"] = "w"
        response = await api.ask("PUT", f"{PATH}/a", wrapped("v1", "ConfigMap", made), headers=SENT)
        assert response.expect(200)["data"] == {"k": "w"}
        options = message("DeleteOptions")
        options.preconditions.uid = "another"
        refused = await api.ask("DELETE", f"{PATH}/a", wrapped("v1", "DeleteOptions", options), headers=SENT)
        assert refused.status == 409
        options.preconditions.uid = made.metadata.uid
        gone = await api.ask("DELETE", f"{PATH}/a", wrapped("", "", options), headers=SENT)
        assert gone.expect(200)["status"] == "Success"


async def test_ports_may_be_numbers_or_names() -> None:
    async with served() as api:
        sent = message("Service")
        sent.metadata.name = "web"
        for name, port in (("a", 80), ("b", 81)):
            sent.spec.ports.add(name=name, port=port)
        sent.spec.ports[0].targetPort.strVal, sent.spec.ports[0].targetPort.type = "http", 1
        sent.spec.ports[1].targetPort.intVal = 8081
        response = await api.ask(
            "POST", api.path("services"), wrapped("v1", "Service", sent), headers={**SENT, **ASKED}
        )
        ports = [port["targetPort"] for port in (await api.get("services", "web"))["spec"]["ports"]]
        assert ports == ["http", 8081]
        returned = [port.targetPort for port in unwrapped(response.body).spec.ports]
        assert [(one.type, one.intVal, one.strVal) for one in returned] == [(1, 0, "http"), (0, 8081, "")]


async def test_type_may_be_absent_from_the_envelope() -> None:
    async with served() as api:
        sent = message("ConfigMap")
        sent.metadata.name = "a"
        assert (await api.ask("POST", PATH, wrapped("", "", sent), headers=SENT)).status == 201


NAMED = message("ConfigMap")
NAMED.metadata.name = "a"
WRONG = {
    "JSON": (b'{"metadata":{"name":"a"}}', "expected prefix"),
    "nothing": (b"", "expected prefix"),
    "half of the prefix": (b"k8", "expected prefix"),
    "another kind": (wrapped("v1", "Secret", NAMED), "cannot be handled as a ConfigMap"),
    "another version": (wrapped("v2", "ConfigMap", NAMED), "does not match the expected API version"),
    "cut short": (wrapped("v1", "ConfigMap", NAMED)[:-3], "unexpected EOF"),
    "no envelope": (b"k8s\x00\xff\xff", "unexpected EOF"),
    "a wire type of old": (b"k8s\x00\x12\x02\x0b\x0c", "does not exist"),
    "a number where metadata is": (
        b"k8s\x00\x12\x02\x08\x01",
        "metadata: field number 1 cannot have wire type 0",
    ),
    "no text": (b"k8s\x00\x12\x05\x0a\x03\x0a\x01\xff", "metadata.name: is not UTF-8 text"),
    "an encoding": (b"k8s\x00\x1a\x04gzip", "contentEncoding must be empty"),
    "no end of a number": (b"k8s\x00\x12\x0e\x0a\x0c\x38" + b"\xff" * 10 + b"\x01", "more than 64 bits"),
}


@cases(("body", "why"), WRONG.values(), ids=WRONG.keys())
async def test_malformed_bodies_are_refused(body: bytes, why: str) -> None:
    async with shared() as api:
        assert why in await api.refuse("POST", PATH, body, 400, headers=SENT)


async def test_patch_in_protobuf_is_refused() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        body = wrapped("v1", "ConfigMap", NAMED)
        await api.refuse("PATCH", f"{PATH}/a", body, 415, headers=SENT)
        patched = await api.ask(
            "PATCH",
            f"{PATH}/a",
            {"data": {"k": "v"}},
            headers={**ASKED, "content-type": "application/merge-patch+json"},
        )
        assert dict(unwrapped(patched.body).data) == {"k": "v"}


# A string at number 99, which no ConfigMap has.
UNKNOWN = NAMED.SerializeToString() + b"\x9a\x06\x01x"


def enveloped(raw: bytes, kind: str = "ConfigMap", content_type: str = "", encoding: str = "") -> bytes:
    unknown = message("Unknown")
    unknown.typeMeta.apiVersion, unknown.typeMeta.kind, unknown.raw = "v1", kind, raw
    unknown.contentType, unknown.contentEncoding = content_type, encoding
    return bytes(MAGIC + unknown.SerializeToString())


async def test_unknown_field_numbers_are_validated_like_unknown_fields() -> None:
    async with shared() as api:
        body = enveloped(UNKNOWN)
        refused = await api.refuse("POST", PATH, body, 400, headers=SENT, fieldValidation="Strict")
        assert refused.endswith("strict decoding error: unknown field number 99")
        for mode, warnings in (("Ignore", []), ("Warn", ['299 - "unknown field number 99"'])):
            query = {"fieldValidation": mode, "dryRun": "All"}
            response = await api.ask("POST", PATH, body, headers=SENT, **query)
            assert (response.status, response.warnings) == (201, warnings)


async def test_unknown_field_numbers_are_reported_with_their_path() -> None:
    async with served() as api:
        service = message("Service")
        service.metadata.name = "s"
        service.spec.ports.add(name="a", port=1)
        port = service.spec.ports.add(name="b", port=2)
        port.MergeFromString(b"\xea\x04\x01x")
        path = "/api/v1/namespaces/default/services"
        body = enveloped(service.SerializeToString(), "Service")
        response = await api.ask("POST", path, body, headers=SENT)
        assert response.warnings == ['299 - "unknown field number 77 in \\"spec.ports[1]\\""']


async def test_content_type_of_the_envelope_is_honoured() -> None:
    async with served() as api:
        raw = b'{"metadata":{"name":"a"},"data":{"k":"v"},"extra":1}'
        response = await api.ask("POST", PATH, enveloped(raw, content_type="application/json"), headers=SENT)
        assert response.expect(201)["data"] == {"k": "v"}
        assert response.warnings == ['299 - "unknown field \\"extra\\""']
        named = enveloped(NAMED.SerializeToString(), content_type=MEDIA)
        assert (await api.ask("POST", PATH, named, headers=SENT)).status == 409


@cases(
    ("sent", "why"),
    [
        ({"content_type": "text/plain"}, 'contentType of the envelope: Unsupported value: "text/plain"'),
        ({"content_type": "application/json"}, "the object in the envelope is not JSON"),
        ({"encoding": "gzip"}, "contentEncoding must be empty"),
    ],
)
async def test_unsupported_content_type_of_the_envelope_is_refused(sent: dict[str, str], why: str) -> None:
    async with shared() as api:
        body = enveloped(NAMED.SerializeToString(), **sent)
        assert why in await api.refuse("POST", PATH, body, 400, headers=SENT)


async def test_documents_of_the_core_group_have_no_api_version() -> None:
    """In any representation, like the errors of kube-apiserver."""
    async with shared() as api:
        for path, kind in (("/api", "APIVersions"), ("/api/v1", "APIResourceList")):
            assert "apiVersion" not in (await api.ask("GET", path)).document
            text = (await api.ask("GET", path, headers={"accept": "application/yaml"})).text
            assert f"kind: {kind}\n" in text and "apiVersion" not in text
            envelope = message("Unknown")
            envelope.ParseFromString((await get(api, path)).body[len(MAGIC) :])
            assert (envelope.typeMeta.apiVersion, envelope.typeMeta.kind) == ("", kind)
        assert (await api.ask("GET", "/apis")).document["apiVersion"] == "v1"
        assert (await api.ask("GET", "/apis/apps/v1")).document["apiVersion"] == "v1"
