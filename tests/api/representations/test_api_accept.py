"""Accept chooses between JSON, YAML and protobuf; a header that cannot be satisfied gets a 406 that lists them."""

from __future__ import annotations

import pytest
import yaml

from tests.cases import cases
from tests.gateway.api import config_map, served
from tests.gateway.protobuf_client import MEDIA
from tests.gateway.shared_server import shared

JSON, YAML = "application/json", "application/yaml"
PATH = "/api/v1/namespaces/default/configmaps"

SERVED = [
    (None, JSON),
    ("", JSON),
    ("*/*", JSON),
    ("application/*", JSON),
    (JSON, JSON),
    ("APPLICATION/JSON", JSON),
    ("application/json; charset=utf-8", JSON),
    (YAML, YAML),
    (f"{YAML}, {JSON}", YAML),
    (f"{JSON}, {YAML}", JSON),
    (f"{YAML};q=0.4, {JSON};q=0.5", JSON),
    (f"{YAML};q=0.5, {JSON};q=0.4", YAML),
    (f"*/*, {YAML}", YAML),
    (f"image/png, {YAML};q=0.1", YAML),
    (f"{JSON};q=0, {YAML}", YAML),
    # Clauses that are not served are skipped if another one is.
    (f"application/vnd.another.protobuf, {JSON}", JSON),
    (f"{JSON};as=Table;g=meta.cluster.io;v=v9, {JSON}", JSON),
    ("text/html, application/xhtml+xml, application/xml;q=0.9, */*;q=0.8", JSON),
]
REFUSED = [
    "text/plain",
    "image/png, text/*",
    "application/vnd.another.protobuf",
    f"{JSON};as=Table;g=meta.cluster.io;v=v9",
    f"{JSON};q=0",
    "*/*;q=0",
    "nonsense",
    ";;;",
    ",,,",
    "/",
    "a" * 3000,
    "image/png," * 3000,
]


@pytest.mark.parametrize(("accept", "media"), SERVED)
async def test_accept_header_selects_the_content_type(accept: str | None, media: str) -> None:
    headers = {} if accept is None else {"accept": accept}
    async with served() as api:
        await api.create("configmaps", config_map("a", text="yes", number="1"))
        for path in (f"{PATH}/a", PATH, f"{PATH}/missing", "/apis", "/version", "/"):
            response = await api.ask("GET", path, headers=headers)
            assert response.headers["content-type"] == media, path
            assert isinstance(yaml.safe_load(response.text), dict)


@cases("accept", REFUSED, ids=range(len(REFUSED)))
async def test_unserved_accept_header_is_not_acceptable(accept: str) -> None:
    async with shared() as api:
        for path in (PATH, f"{PATH}/a", "/apis", "/version"):
            response = await api.ask("GET", path, headers={"accept": accept})
            status = response.expect(406)
            assert response.headers["content-type"] == JSON
            assert status["reason"] == "NotAcceptable"
            assert f"{JSON}, {YAML}, {MEDIA}" in status["message"]


async def test_unserved_parameters_get_a_406_without_details() -> None:
    async with shared() as api:
        for accept, details in (("text/html", {}), (f"{JSON};as=Chart;g=meta.cluster.io;v=v1", None)):
            status = (await api.ask("GET", PATH, headers={"accept": accept})).expect(406)
            assert status.get("details") == details


@cases(
    ("method", "path", "code"),
    [("GET", "/api/v1/boats", 404), ("POST", f"{PATH}/a", 405), ("GET", f"{PATH}/a", 406)],
)
async def test_missing_resource_is_a_404_before_a_406(method: str, path: str, code: int) -> None:
    async with shared() as api:
        (await api.ask(method, path, headers={"accept": "text/html"})).expect(code)


@cases("path", ["/api", "/apis", "/apis/apps", "/apis/apps/v1", "/version"])
async def test_documents_cannot_be_tables(path: str) -> None:
    async with shared() as api:
        table = f"{JSON};as=Table;g=meta.cluster.io;v=v1"
        (await api.ask("GET", path, headers={"accept": table})).expect(406)
        (await api.ask("GET", path, headers={"accept": f"{table},{JSON}"})).expect(200)


async def test_write_with_unacceptable_representation_changes_nothing() -> None:
    async with served() as api:
        await api.create("configmaps", config_map("a"))
        head = await api.head()
        for method, path in (("POST", PATH), ("PUT", f"{PATH}/a"), ("DELETE", f"{PATH}/a"), ("DELETE", PATH)):
            response = await api.ask(
                method, path, config_map("a", text="new"), headers={"accept": "image/png"}
            )
            assert response.status == 406
        assert await api.head() == head


async def test_yaml_has_the_same_content_as_json() -> None:
    async with served() as api:
        texts = {
            "bool": "true",
            "null": "null",
            "number": "1.0",
            "lines": "a\nb\n",
            "umlaut": "ü",
            "empty": "",
            "colon": "a: b",
        }
        await api.create("configmaps", config_map("a", **texts))
        for path in (PATH, f"{PATH}/a", f"{PATH}/missing"):
            json = await api.ask("GET", path)
            response = await api.ask("GET", path, headers={"accept": YAML})
            assert yaml.safe_load(response.text) == json.document


async def test_forbidden_status_is_yaml_if_accepted() -> None:
    async with shared() as api:
        response = await api.ask("GET", PATH, token=None, headers={"accept": YAML})
        assert (response.status, response.headers["content-type"]) == (403, YAML)
        assert yaml.safe_load(response.text)["reason"] == "Forbidden"
