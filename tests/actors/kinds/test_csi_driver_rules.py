"""CSIDriver: defaults, immutable fields, token requests, and what increments the generation."""

from __future__ import annotations

from typing import Any

from tests.actors.kinds.definitions import Definitions
from tests.cases import cases


def driver(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "d.example.com"}, "spec": spec}


def test_create_sets_defaults(kinds: Definitions) -> None:
    stored = kinds.stored("csidrivers", {"metadata": {"name": "a"}})
    assert stored["spec"] == {
        "attachRequired": True,
        "podInfoOnMount": False,
        "volumeLifecycleModes": ["Persistent"],
        "storageCapacity": False,
        "fsGroupPolicy": "ReadWriteOnceWithFSType",
        "requiresRepublish": False,
    }
    assert "generation" not in stored["metadata"]
    assert kinds.create_causes("csidrivers", driver()) == []


def test_se_linux_mount_is_dropped_while_its_feature_is_disabled(kinds: Definitions) -> None:
    assert "seLinuxMount" not in kinds.stored("csidrivers", driver(seLinuxMount=True))["spec"]
    new, _ = kinds.update("csidrivers", driver(), driver(seLinuxMount=True))
    assert "seLinuxMount" not in new["spec"] and "generation" not in new["metadata"]


@cases(
    ("spec", "expected"),
    [
        (
            {"fsGroupPolicy": "Some"},
            [
                (
                    "spec.fsGroupPolicy",
                    'Unsupported value: "Some": supported values: "File", "None", "ReadWriteOnceWithFSType"',
                )
            ],
        ),
        (
            {"volumeLifecycleModes": ["Ephemeral", "Eternal"]},
            [
                (
                    "spec.volumeLifecycleModes",
                    'Unsupported value: "Eternal": supported values: "Persistent", "Ephemeral"',
                )
            ],
        ),
        ({"fsGroupPolicy": "File", "volumeLifecycleModes": ["Ephemeral", "Persistent"]}, []),
    ],
)
def test_create_reports_unsupported_values(
    kinds: Definitions, spec: Any, expected: list[tuple[str, str]]
) -> None:
    assert kinds.create_causes("csidrivers", driver(**spec)) == expected


@cases(
    ("requests", "field", "message"),
    [
        ([{"audience": "a"}] * 2, "[1].audience", 'Duplicate value: "a"'),
        ([{"audience": ""}] * 2, "[1].audience", 'Duplicate value: ""'),
        (
            [{"audience": "a", "expirationSeconds": 599}],
            "[0].expirationSeconds",
            "Invalid value: 599: may not specify a duration less than 10 minutes",
        ),
        (
            [{"audience": "a", "expirationSeconds": 2**32 + 1}],
            "[0].expirationSeconds",
            "Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds",
        ),
    ],
)
def test_create_reports_invalid_token_requests(
    kinds: Definitions, requests: Any, field: str, message: str
) -> None:
    wrong = (f"spec.tokenRequests{field}", message)
    assert kinds.create_causes("csidrivers", driver(tokenRequests=requests)) == [wrong]
    _, causes = kinds.update("csidrivers", driver(), driver(tokenRequests=requests))
    assert causes == [wrong, wrong]


def test_token_expiration_at_its_limits_is_valid(kinds: Definitions) -> None:
    requests = [
        {"audience": "", "expirationSeconds": 600},
        {"audience": "a", "expirationSeconds": 2**32},
        {"audience": "b"},
    ]
    assert kinds.create_causes("csidrivers", driver(tokenRequests=requests)) == []


@cases(
    ("spec", "expected"),
    [
        ({"attachRequired": False}, ("spec.attachedRequired", "Invalid value: false: field is immutable")),
        ({"podInfoOnMount": True}, ("spec.podInfoOnMount", "Invalid value: true: field is immutable")),
        ({"fsGroupPolicy": "File"}, ("spec.fsGroupPolicy", 'Invalid value: "File": field is immutable')),
        (
            {"volumeLifecycleModes": ["Ephemeral"]},
            ("spec.volumeLifecycleModes", 'Invalid value: []string{"Ephemeral"}: field is immutable'),
        ),
    ],
)
def test_update_of_immutable_field_is_refused(
    kinds: Definitions, spec: Any, expected: tuple[str, str]
) -> None:
    assert kinds.update("csidrivers", driver(), driver(**spec))[1] == [expected]


def test_generation_counts_only_changes_of_certain_fields(kinds: Definitions) -> None:
    new, causes = kinds.update("csidrivers", driver(), driver(storageCapacity=True))
    assert causes == [] and "generation" not in new["metadata"]
    for spec in ({"requiresRepublish": True}, {"tokenRequests": [{"audience": "a"}]}):
        new, causes = kinds.update("csidrivers", driver(), driver(**spec))
        assert causes == [] and new["metadata"]["generation"] == 1


def test_update_needs_a_resource_version_and_delete_returns_the_object(kinds: Definitions) -> None:
    assert (
        kinds["csidrivers"].deletion.returns_object
        and not kinds["csidrivers"].strategy.allow_unconditional_update
    )
