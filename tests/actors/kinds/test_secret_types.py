"""The well-known secret types require their keys, with the names of either dialect."""

from __future__ import annotations

from typing import Any

from rewound.actors.names import Names
from tests.actors.kinds.definitions import Definitions
from tests.cases import cases

REQUIRED = [
    ("dockercfg", {}, ["data[.dockercfg]"]),
    ("dockerconfigjson", {"data": {"other": "e30="}}, ["data[.dockerconfigjson]"]),
    ("basic-auth", {"data": {"token": "eA=="}}, ["data[username]", "data[password]"]),
    ("basic-auth", {"data": {"password": ""}}, []),
    ("ssh-auth", {"data": {"key": "eA=="}}, ["data[ssh-privatekey]"]),
    ("ssh-auth", {"data": {"ssh-privatekey": ""}}, ["data[ssh-privatekey]"]),
    ("ssh-auth", {"stringData": {"ssh-privatekey": "k"}}, []),
    ("tls", {}, ["data[tls.crt]", "data[tls.key]"]),
    ("tls", {"data": {"tls.crt": "eA=="}}, ["data[tls.key]"]),
    ("tls", {"data": {"tls.crt": "", "tls.key": ""}}, []),
    ("unknown", {}, []),
]


@cases(("type_", "contents", "fields"), REQUIRED)
def test_type_requires_its_keys(
    kinds: Definitions, names: Names, type_: str, contents: Any, fields: list[str]
) -> None:
    document = {"metadata": {"name": "a"}, "type": names.key(type_), **contents}
    assert kinds.create_causes("secrets", document) == [(field, "Required value") for field in fields]


def test_service_account_token_needs_the_account_annotation(kinds: Definitions, names: Names) -> None:
    key = names.key("service-account.name")
    document: dict[str, Any] = {"metadata": {"name": "a"}, "type": names.key("service-account-token")}
    assert kinds.create_causes("secrets", document) == [(f"metadata.annotations[{key}]", "Required value")]
    document["metadata"]["annotations"] = {key: "robot"}
    assert kinds.create_causes("secrets", document) == []


@cases(("text", "valid"), [("{}", True), ("null", True), ("[]", False), ("{", False), ("", False)])
def test_registry_credentials_are_json_and_redacted_in_messages(
    kinds: Definitions, names: Names, text: str, valid: bool
) -> None:
    document = {"metadata": {"name": "a"}, "type": names.key("dockercfg"), "stringData": {".dockercfg": text}}
    causes = kinds.create_causes("secrets", document)
    assert valid == (causes == [])
    for field, message in causes:
        assert field == "data[.dockercfg]"
        assert message.startswith('Invalid value: "<secret contents redacted>": ')


@cases(
    ("text", "what"),
    [
        ("x", "invalid character 'x' looking for beginning of value"),
        ("[]", "json: cannot unmarshal array into Go value of type map[string]interface {}"),
    ],
)
def test_error_texts_of_registry_credentials(kinds: Definitions, names: Names, text: str, what: str) -> None:
    key = ".dockerconfigjson"
    document = {"metadata": {"name": "a"}, "type": names.key("dockerconfigjson"), "stringData": {key: text}}
    message = f'Invalid value: "<secret contents redacted>": {what}'
    assert kinds.create_causes("secrets", document) == [(f"data[{key}]", message)]
