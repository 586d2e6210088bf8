"""CustomResourceDefinition: defaults, and rules for names, versions, columns, scale paths and conversion."""

from __future__ import annotations

import copy
from typing import Any

# Without this import, checking a schema would need a thread, as in a server that has not imported it yet.
import rewound.actors.kinds.structural.definition_checks  # noqa: F401
from rewound.actors.kinds.apiextensions import declare
from rewound.actors.kinds.validation import collect
from rewound.actors.messages import Object
from rewound.actors.names import CLUSTER
from tests.cases import cases

(DEFINITION,) = declare(CLUSTER)
SCHEMA = {"openAPIV3Schema": {"type": "object"}}
LABEL = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)


def version(name: str = "v1", **more: Any) -> Object:
    return {"name": name, "served": True, "storage": name == "v1", "schema": SCHEMA, **more}


def created(name: str = "shops.example.com", **changed: Any) -> Object:
    """A definition with another spec, decoded and prepared."""
    spec = {
        "group": "example.com",
        "scope": "Cluster",
        "names": {"plural": "shops", "kind": "Shop"},
        "versions": [version()],
        **changed,
    }
    new = DEFINITION.schema.decode_object(
        {
            "metadata": {"name": name, "uid": "u", "creationTimestamp": "2020-01-02T03:04:05Z"},
            "spec": copy.deepcopy(spec),
        }
    ).object
    DEFINITION.strategy.prepare_for_create(new)
    return new


def errors(**changed: Any) -> list[tuple[str, str]]:
    found = collect(DEFINITION.strategy.validate_create, created(**changed))
    return [(one.field, one.message) for one in found]


def test_names_and_conversion_have_defaults() -> None:
    spec = created()["spec"]
    assert spec["names"] == {"plural": "shops", "singular": "shop", "kind": "Shop", "listKind": "ShopList"}
    assert spec["conversion"] == {"strategy": "None"}
    assert errors() == []


def test_name_is_plural_and_group() -> None:
    assert errors(name="shops.example.org") == [
        ("metadata.name", 'Invalid value: "shops.example.org": must be spec.names.plural+"."+spec.group')
    ]


@cases(
    ("changed", "found"),
    [
        (
            {"scope": "World"},
            [("spec.scope", 'Unsupported value: "World": supported values: "Cluster", "Namespaced"')],
        ),
        ({"scope": ""}, [("spec.scope", "Required value")]),
        (
            {"versions": [version(deprecationWarning="old")]},
            [
                (
                    "spec.versions[0].deprecationWarning",
                    'Invalid value: "old": can only be set for deprecated versions',
                )
            ],
        ),
        (
            {"versions": [version(deprecated=True, deprecationWarning="a\nb")]},
            [
                (
                    "spec.versions[0].deprecationWarning",
                    'Invalid value: "a\\nb": must only contain printable UTF-8 characters; non-printable character '
                    "found at index 1",
                )
            ],
        ),
        (
            {"versions": [version(), version("v2", additionalPrinterColumns=[{"name": "", "type": "x"}])]},
            [
                ("spec.versions[1].additionalPrinterColumns[0].name", "Required value"),
                (
                    "spec.versions[1].additionalPrinterColumns[0].type",
                    'Invalid value: "x": must be one of boolean,date,integer,number,string',
                ),
                ("spec.versions[1].additionalPrinterColumns[0].JSONPath", "Required value"),
            ],
        ),
        (
            {
                "versions": [
                    version(
                        subresources={
                            "scale": {
                                "specReplicasPath": "spec.n",
                                "statusReplicasPath": ".spec.n",
                                "labelSelectorPath": ".metadata.n",
                            }
                        }
                    )
                ]
            },
            [
                (
                    "spec.subresources.scale.specReplicasPath",
                    'Invalid value: "spec.n": must be a simple json path starting with .',
                ),
                (
                    "spec.subresources.scale.statusReplicasPath",
                    'Invalid value: ".spec.n": should be a json path under .status',
                ),
                (
                    "spec.subresources.scale.labelSelectorPath",
                    'Invalid value: ".metadata.n": should be a json path under either .spec or .status',
                ),
            ],
        ),
        (
            {"names": {"plural": "shops", "kind": "Shop", "categories": ["A"]}},
            [("spec.names.categories[0]", f'Invalid value: "A": {LABEL}')],
        ),
        (
            {
                "conversion": {
                    "strategy": "Webhook",
                    "webhook": {
                        "clientConfig": {"url": "http://a"},
                        "conversionReviewVersions": ["v1", "v1", "V"],
                    },
                }
            },
            [
                (
                    "spec.conversion.webhookClientConfig.url",
                    "Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]",
                ),
                ("spec.conversion.conversionReviewVersions[1]", 'Invalid value: "v1": duplicate version'),
                ("spec.conversion.conversionReviewVersions[2]", f'Invalid value: "V": {LABEL}'),
            ],
        ),
    ],
)
def test_refused_with_the_words_of_v1_25(changed: Object, found: list[tuple[str, str]]) -> None:
    assert errors(**changed) == found


def test_a_definition_needs_a_version() -> None:
    kind = "[]apiextensions.CustomResourceDefinitionVersion"
    text = "must have exactly one version marked as storage version"
    for versions, printed in (([], f"{kind}{{}}"), (None, f"{kind}(nil)")):
        assert ("spec.versions", f"Invalid value: {printed}: {text}") in errors(versions=versions)


def test_group_needs_a_dot() -> None:
    found = dict(errors(name="shops.example", group="example"))
    assert found == {"spec.group": 'Invalid value: "example": should be a domain with at least one dot'}


def test_established_definition_keeps_scope_and_kind() -> None:
    old = created()
    old["status"]["conditions"] = [{"type": "Established", "status": "True"}]
    new = created(scope="Namespaced", names={"plural": "stores", "kind": "Store"})
    DEFINITION.strategy.prepare_for_update(new, old)
    found = collect(DEFINITION.strategy.validate_update, new, old)
    assert [one.field for one in found] == ["spec.scope", "spec.names.kind", "spec.names.plural"]
    assert new["metadata"]["generation"] == 2
