"""A value of the wrong type is refused, and the error names the field and the type of the value."""

from __future__ import annotations

import pytest

from rewound.actors.golang.json import dumps
from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.schema.decoder import NotDecodable, Schema
from rewound.actors.names import KUBERNETES
from rewound.actors.profile import choose_rules
from rewound.actors.versions.features import choose_release
from tests.actors.kinds.definitions import Definitions
from tests.cases import cases

CASES = [
    ("configmaps", b'{"data":"x"}', "string into Go struct field ConfigMap.data of type map[string]string"),
    ("configmaps", b'{"data":{"k":1}}', "number into Go struct field ConfigMap.data of type string"),
    ("configmaps", b'{"data":{"k":true}}', "bool into Go struct field ConfigMap.data of type string"),
    ("configmaps", b'{"data":{"k":{}}}', "object into Go struct field ConfigMap.data of type string"),
    ("configmaps", b'{"immutable":"true"}', "string into Go struct field ConfigMap.immutable of type bool"),
    ("configmaps", b'{"immutable":1}', "number into Go struct field ConfigMap.immutable of type bool"),
    (
        "configmaps",
        b'{"metadata":"a"}',
        "string into Go struct field ConfigMap.metadata of type v1.ObjectMeta",
    ),
    (
        "configmaps",
        b'{"metadata":{"name":5}}',
        "number into Go struct field ObjectMeta.metadata.name of type string",
    ),
    (
        "configmaps",
        b'{"metadata":{"finalizers":{}}}',
        "object into Go struct field ObjectMeta.metadata.finalizers",
    ),
    ("priorityclasses", b'{"value":"5"}', "string into Go struct field PriorityClass.value of type int32"),
    (
        "endpoints",
        b'{"subsets":[{"ports":[{"port":[]}]}]}',
        "array into Go struct field EndpointPort.subsets.ports.port",
    ),
]


@cases(("plural", "raw", "text"), CASES)
def test_error_names_the_field_and_both_types(kinds: Definitions, plural: str, raw: bytes, text: str) -> None:
    kind = kinds[plural].kind
    with pytest.raises(NotDecodable) as refused:
        kinds[plural].schema.decode_json(raw)
    assert str(refused.value).startswith(
        f'{kind} in version "v1" cannot be handled as a {kind}: json: cannot unmarshal {text}'
    )


def test_wrong_type_takes_precedence_over_unknown_fields(kinds: Definitions) -> None:
    with pytest.raises(NotDecodable, match=r"ConfigMap\.data of type"):
        kinds["configmaps"].schema.decode_json(b'{"bogus":1,"data":5}')


def test_first_of_several_wrong_types_is_reported(kinds: Definitions) -> None:
    with pytest.raises(NotDecodable, match=r"ConfigMap\.immutable"):
        kinds["configmaps"].schema.decode_json(b'{"immutable":5,"data":5}')


_VOLUMES = b'{"spec":{"volumes":[{"hostPath":{"path":5}}]}}'
_RULES = b'{"webhooks":[{"rules":[{"scope":5}]}]}'
BY_VERSION = [
    ("1.34", "v1", "pods", _VOLUMES, "HostPathVolumeSource.spec.volumes.hostPath.path of type string"),
    (
        "1.35",
        "v1",
        "pods",
        _VOLUMES,
        "HostPathVolumeSource.spec.volumes.VolumeSource.hostPath.path of type string",
    ),
    ("1.36", "v2", "horizontalpodautoscalers", b'{"spec":5}', "HorizontalPodAutoscaler.spec of type v2."),
    (
        "1.36",
        "v1",
        "validatingwebhookconfigurations",
        _RULES,
        "RuleWithOperations.webhooks.rules.Rule.scope of ",
    ),
]


@cases(("release", "version", "plural", "raw", "text"), BY_VERSION)
def test_error_names_go_types_as_the_version_does(
    release: str, version: str, plural: str, raw: bytes, text: str
) -> None:
    catalog = built_in(KUBERNETES, choose_release(release))
    found = next(one for one in catalog.definitions if (one.version, one.plural) == (version, plural))
    with pytest.raises(NotDecodable) as refused:
        found.schema.decode_json(raw)
    assert f"json: cannot unmarshal number into Go struct field {text}" in str(refused.value)


def test_bytes_may_be_a_list_of_numbers(kinds: Definitions) -> None:
    schema = kinds["configmaps"].schema
    found = schema.decode_json(b'{"binaryData":{"k":[104,105,null]}}').object
    assert found["binaryData"] == {"k": "aGkA"}
    for wrong, text in ((b'"a"', "string"), (b"256", "number 256"), (b"-1", "number -1")):
        with pytest.raises(NotDecodable, match=f"unmarshal {text} into .*binaryData of type uint8"):
            schema.decode_json(b'{"binaryData":{"k":[' + wrong + b"]}}")


QUANTITIES = "quantities must match the regular expression"


@cases(
    ("plural", "raw", "text"),
    [
        (
            "limitranges",
            b'{"metadata":5,"spec":{"limits":[{"type":1,"min":"x","max":{"cpu":"much"}}]}}',
            QUANTITIES,
        ),
        (
            "limitranges",
            b'{"spec":{"limits":[{"max":{"cpu":"1"}}],"limits":[{"max":{"cpu":"much"}}]}}',
            QUANTITIES,
        ),
        (
            "limitranges",
            b'{"metadata":5,"spec":{"limits":[{"max":[{"cpu":"much"}]}]}}',
            "LimitRange.metadata",
        ),
        (
            "events",
            b'{"involvedObject":{"name":true},"lastTimestamp":[null]}',
            "array into Go struct field Event.lastTimestamp of type string",
        ),
        ("events", b'{"involvedObject":{"name":true},"eventTime":"soon"}', "parsing time"),
        (
            "configmaps",
            b'{"immutable":5,"binaryData":{"a":"?"}}',
            "number into Go struct field ConfigMap.immutable of type bool",
        ),
        (
            "services",
            b'{"spec":{"ports":[{"port":"a","targetPort":[]}]}}',
            "array into Go struct field ServicePort.spec.ports.targetPort of type int32",
        ),
        (
            "leases",
            b'{"metadata":{"labels":[],"creationTimestamp":"x"},"spec":{"holderIdentity":5}}',
            "parsing time",
        ),
    ],
)
def test_values_that_read_themselves_end_the_decoding(
    kinds: Definitions, plural: str, raw: bytes, text: str
) -> None:
    with pytest.raises(NotDecodable) as refused:
        kinds[plural].schema.decode_json(raw)
    assert text in str(refused.value)


def schema_of_definitions(version: str) -> Schema:
    catalog = built_in(KUBERNETES, choose_release(version), rules=choose_rules("kubernetes"))
    return Definitions(catalog)["customresourcedefinitions"].schema


SCHEMA = '{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"properties":{"l":%s}}}}]}}'
PROPERTIES = "JSONSchemaProps.spec.versions.schema.openAPIV3Schema.properties"


@cases(
    ("sent", "before", "since"),
    [
        ('{"items":{"type":5}}', "items of type string", "items.type of type string"),
        ('{"items":[{"minimum":"a"}]}', "items of type float64", "items.minimum of type float64"),
        (
            '{"additionalProperties":{"properties":{"q":{"type":5}}}}',
            "additionalProperties of type string",
            "additionalProperties.properties.type of type string",
        ),
    ],
)
def test_errors_in_schemas_that_read_themselves(sent: str, before: str, since: str) -> None:
    for version, rest in (("1.25", before), ("1.36", since)):
        schema = schema_of_definitions(version)
        with pytest.raises(NotDecodable) as refused:
            schema.decode_json((SCHEMA % sent).encode())
        assert f"{PROPERTIES}.{rest}" in str(refused.value)


def test_what_schemas_that_read_themselves_ignore() -> None:
    schema = schema_of_definitions("1.25")
    found = schema.decode_json((SCHEMA % '{"bogus":1,"items":{"type":"string","bogus":1}}').encode())
    assert [text.rpartition(".")[2] for text in found.problems] == ['bogus"']
    for ignored in ('"x"', "5", "true", '""'):
        found = schema.decode_json((SCHEMA % ('{"items":' + ignored + "}")).encode())
        [version] = found.object["spec"]["versions"]
        assert version["schema"]["openAPIV3Schema"]["properties"]["l"] == {}
    with pytest.raises(NotDecodable, match="boolean or JSON schema expected"):
        schema.decode_json((SCHEMA % '{"type":5,"additionalProperties":"x"}').encode())


def test_by_the_documents_schemas_are_checked_like_other_fields(kinds: Definitions) -> None:
    schema = kinds["customresourcedefinitions"].schema
    found = schema.decode_json((SCHEMA % '{"items":{"type":"string","bogus":1}}').encode())
    assert [text.rpartition(".properties.")[2] for text in found.problems] == ['l.items.bogus"']
    with pytest.raises(NotDecodable, match=r"properties\.items of type"):
        schema.decode_json((SCHEMA % '{"items":"x"}').encode())


def test_any_json_is_kept_even_if_empty() -> None:
    schema = Definitions(built_in(KUBERNETES, choose_release("1.36")))["deviceclasses"].schema
    sent = b'{"spec":{"config":[{"opaque":{"driver":"d","parameters":%s}}]}}'
    for value in (b"{}", b'{"a":1}', b"0", b'""'):
        [config] = schema.decode_json(sent % value).object["spec"]["config"]
        assert dumps(config["opaque"]["parameters"]) == value
