"""Flow control in the versions of its group: names of shares, zero shares, and levels that nobody may change."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.enablement import Enablement
from rewound.actors.kinds.validation import collect_with
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import choose_release

PLURAL = "prioritylevelconfigurations"
GROUP = "flowcontrol.apiserver.k8s.io"
REJECT: dict[str, Any] = {"limitResponse": {"type": "Reject"}}


def served(version: str) -> dict[str, Definition]:
    catalog = built_in(KUBERNETES, choose_release(version), Enablement(every=True))
    return {one.version: one for one in catalog.definitions if one.plural == PLURAL}


def stored(definition: Definition, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    document = {"metadata": {"name": "a", **metadata}, "spec": spec}
    decoded = definition.schema.decode_object(document).object
    conversion = definition.storage.conversion
    return conversion.to_storage(decoded) if conversion else decoded


def messages(definition: Definition, spec: dict[str, Any], **metadata: Any) -> list[str]:
    new = stored(definition, spec, **metadata)
    assert definition.strategy.prepare_for_create is not None
    definition.strategy.prepare_for_create(new)
    found = collect_with(definition.features, definition.strategy.validate_create, new)
    return [f"{one.field}: {one.message}" for one in found]


def test_versions_of_the_group() -> None:
    expected = {
        "1.25": ["v1beta1", "v1beta2"],
        "1.26": ["v1beta2", "v1beta3"],
        "1.28": ["v1beta2", "v1beta3"],
        "1.29": ["v1", "v1beta3"],
        "1.31": ["v1", "v1beta3"],
        "1.32": ["v1"],
    }
    assert {version: sorted(served(version)) for version in expected} == expected


def test_deprecations_are_announced() -> None:
    assert not served("1.25")["v1beta2"].deprecation_warning
    assert not served("1.28")["v1beta3"].deprecation_warning
    kind = "PriorityLevelConfiguration"
    assert served("1.28")["v1beta2"].deprecation_warning == (
        f"{GROUP}/v1beta2 {kind} is deprecated in v1.26+, unavailable in v1.29+; use {GROUP}/v1beta3 {kind}"
    )
    assert served("1.30")["v1beta3"].deprecation_warning == (
        f"{GROUP}/v1beta3 {kind} is deprecated in v1.29+, unavailable in v1.32+; use {GROUP}/v1 {kind}"
    )


def test_shares_are_stored_under_their_first_name() -> None:
    definition = served("1.36")["v1"]
    level = stored(definition, {"type": "Limited", "limited": REJECT})
    assert level["spec"]["limited"] == {**REJECT, "assuredConcurrencyShares": 30, "lendablePercent": 0}
    assert definition.storage.conversion is not None
    shown = definition.storage.conversion.from_storage(level)
    assert shown["spec"]["limited"] == {**REJECT, "nominalConcurrencyShares": 30, "lendablePercent": 0}


def test_zero_shares() -> None:
    none = {"type": "Limited", "limited": {"nominalConcurrencyShares": 0, **REJECT}}
    assert messages(served("1.36")["v1"], none) == []
    refused = "spec.limited.nominalConcurrencyShares: Invalid value: 0: must be positive"
    assert messages(served("1.29")["v1"], none) == [refused]


def test_v1beta3_marks_zero_shares_with_an_annotation() -> None:
    key = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"
    definition = served("1.30")["v1beta3"]
    spec = {"type": "Limited", "limited": {"nominalConcurrencyShares": 0, **REJECT}}
    assert stored(definition, spec)["spec"]["limited"]["assuredConcurrencyShares"] == 30
    kept = stored(definition, spec, annotations={key: ""})
    assert kept["spec"]["limited"]["assuredConcurrencyShares"] == 0
    assert "annotations" not in kept["metadata"]
    assert definition.storage.conversion is not None
    assert definition.storage.conversion.from_storage(kept)["metadata"]["annotations"] == {key: ""}
    forbidden = f"metadata.annotations: Forbidden: annotation '{key}' is forbidden"
    assert messages(served("1.30")["v1"], spec, annotations={key: ""}) == [forbidden]


def test_versions_without_that_annotation_forbid_no_annotation() -> None:
    spec = {"type": "Limited", "limited": {"nominalConcurrencyShares": 1, **REJECT}}
    assert messages(served("1.25")["v1beta2"], spec, annotations={"": ""}) == []


def test_only_the_shares_of_the_exempt_level_may_change() -> None:
    definition = served("1.36")["v1"]
    assert messages(definition, {"type": "Exempt", "exempt": {"lendablePercent": 7}}, name="exempt") == []
    (fixed,) = messages(definition, {"type": "Limited", "limited": REJECT}, name="catch-all")
    assert fixed.endswith("spec of 'catch-all' must equal the fixed value")
    wrong = {"type": "Exempt", "exempt": {"nominalConcurrencyShares": -1, "lendablePercent": 101}}
    assert messages(definition, wrong, name="exempt") == [
        "spec.exempt.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer",
        "spec.exempt.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive",
    ]


def test_a_method_without_a_type_is_shown_as_the_version_shows_values() -> None:
    spec = {
        "matchingPrecedence": 5,
        "distinguisherMethod": {},
        "priorityLevelConfiguration": {"name": "a"},
        "rules": [],
    }
    rest = 'supported values: "ByNamespace", "ByUser"'
    for version, shown in (("1.25", 'flowcontrol.FlowDistinguisherMethod{Type:""}'), ("1.36", '{"Type":""}')):
        catalog = built_in(KUBERNETES, choose_release(version), Enablement(every=True))
        definition = next(one for one in catalog.definitions if one.plural == "flowschemas")
        field = "spec.distinguisherMethod.type"
        assert messages(definition, spec) == [f"{field}: Unsupported value: {shown}: {rest}"]
