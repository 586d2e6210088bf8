"""PriorityLevelConfiguration: limited or exempt, queues and hands, the two mandatory levels."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.flowcontrol import mandatory_levels
from tests.actors.kinds.definitions import Definitions
from tests.cases import cases

PLURAL = "prioritylevelconfigurations"


def level(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": {"type": "Limited", **spec}}


def queued(**queuing: Any) -> dict[str, Any]:
    return level(limited={"limitResponse": {"type": "Queue", "queuing": queuing}})


def test_create_sets_defaults(kinds: Definitions) -> None:
    stored = kinds.stored(PLURAL, queued())
    assert stored["spec"]["limited"] == {
        "assuredConcurrencyShares": 30,
        "limitResponse": {"type": "Queue", "queuing": {"queues": 64, "handSize": 8, "queueLengthLimit": 50}},
    }
    assert stored["status"] == {} and stored["metadata"]["generation"] == 1
    assert kinds.create_causes(PLURAL, queued()) == []


LIMITED = "spec.limited"
QUEUING = "spec.limited.limitResponse.queuing"


@cases(
    ("document", "field", "message"),
    [
        (
            level(type="Free"),
            "spec.type",
            'Unsupported value: "Free": supported values: "Exempt", "Limited"',
        ),
        (level(), LIMITED, "Required value: must not be empty when type is Limited"),
        (
            level(limited={"assuredConcurrencyShares": -1, "limitResponse": {"type": "Reject"}}),
            f"{LIMITED}.assuredConcurrencyShares",
            "Invalid value: -1: must be positive",
        ),
        (
            level(limited={"limitResponse": {"type": "Shrug"}}),
            f"{LIMITED}.limitResponse.type",
            'Unsupported value: "Shrug": supported values: "Queue", "Reject"',
        ),
        (
            level(limited={"limitResponse": {"type": "Reject", "queuing": {}}}),
            QUEUING,
            "Forbidden: must be nil if limited.limitResponse.type is not Limited",
        ),
        (
            level(limited={"limitResponse": {"type": "Queue"}}),
            QUEUING,
            "Required value: must not be empty if limited.limitResponse.type is Limited",
        ),
        (queued(queueLengthLimit=-1), f"{QUEUING}.queueLengthLimit", "Invalid value: -1: must be positive"),
        (
            queued(queues=10_000_001, handSize=1),
            f"{QUEUING}.queues",
            "Invalid value: 10000001: must not be greater than 10000000",
        ),
        (queued(handSize=-1), f"{QUEUING}.handSize", "Invalid value: -1: must be positive"),
        (
            queued(queues=4, handSize=5),
            f"{QUEUING}.handSize",
            "Invalid value: 5: should not be greater than queues (4)",
        ),
        (
            queued(queues=128, handSize=9),
            f"{QUEUING}.handSize",
            "Invalid value: 9: required entropy bits of deckSize 128 and handSize 9 "
            "should not be greater than 60",
        ),
    ],
)
def test_create_reports_invalid_fields(kinds: Definitions, document: Any, field: str, message: str) -> None:
    assert kinds.create_causes(PLURAL, document) == [(field, message)]


def test_negative_queues_make_the_hand_size_invalid_too(kinds: Definitions) -> None:
    assert [field for field, _ in kinds.create_causes(PLURAL, queued(queues=-1))] == [
        f"{QUEUING}.queues",
        f"{QUEUING}.handSize",
    ]


def test_type_exempt_is_only_for_the_level_named_exempt(kinds: Definitions) -> None:
    text = "type must be 'Exempt' if and only if name is 'exempt'"
    assert kinds.create_causes(PLURAL, level(type="Exempt")) == [
        ("spec.type", f'Invalid value: "Exempt": {text}')
    ]
    limited = {**mandatory_levels(frozenset())["exempt"], "limited": {"limitResponse": {"type": "Reject"}}}
    assert [
        field for field, _ in kinds.create_causes(PLURAL, {"metadata": {"name": "exempt"}, "spec": limited})
    ] == ["spec.limited", "spec"]


@cases("name", ["exempt", "catch-all"])
def test_specs_of_mandatory_objects_are_immutable(kinds: Definitions, name: str) -> None:
    assert (
        kinds.create_causes(PLURAL, {"metadata": {"name": name}, "spec": mandatory_levels(frozenset())[name]})
        == []
    )
    changed = {"metadata": {"name": "catch-all"}, "spec": queued()["spec"]}
    [(field, message)] = kinds.create_causes(PLURAL, changed)
    assert field == "spec" and message.endswith("spec of 'catch-all' must equal the fixed value")


def test_update_changes_generation_and_status_subresource_changes_status(kinds: Definitions) -> None:
    found = {**queued(queues=32), "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    new, causes = kinds.update(PLURAL, queued(), found)
    assert causes == [] and new["metadata"]["generation"] == 2 and new["status"] == {}
    new, causes = kinds.update(PLURAL, queued(), found, "status")
    assert causes == [] and new["status"]["conditions"][0]["type"] == "Ready"
    assert new["spec"] == kinds.stored(PLURAL, queued())["spec"]
