"""LimitRange: defaults of containers, names of resources, and the order of amounts."""

from __future__ import annotations

from typing import Any

from rewound.actors.names import Names
from tests.actors.kinds.definitions import Definitions
from tests.cases import cases


def limits(*items: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": {"limits": list(items)}}


def limit(kind: str, **amounts: Any) -> dict[str, Any]:
    return limits({"type": kind, **amounts})


def decoded_item(kinds: Definitions, document: Any) -> dict[str, Any]:
    item: dict[str, Any] = kinds.decode("limitranges", document)["spec"]["limits"][0]
    return item


def test_container_defaults_come_from_max_and_min(kinds: Definitions) -> None:
    item = decoded_item(kinds, limit("Container", max={"cpu": "2"}, min={"memory": "1Mi"}))
    assert item["default"] == {"cpu": "2"}
    assert item["defaultRequest"] == {"cpu": "2", "memory": "1Mi"}
    assert list(item) == ["type", "max", "min", "default", "defaultRequest"]


def test_explicit_defaults_are_kept(kinds: Definitions) -> None:
    item = decoded_item(
        kinds, limit("Container", max={"cpu": "4"}, default={"cpu": "2"}, defaultRequest={"cpu": "1"})
    )
    assert item["default"] == {"cpu": "2"} and item["defaultRequest"] == {"cpu": "1"}
    item = decoded_item(kinds, limit("Container", max={"cpu": "4"}, min={"cpu": "1"}, default={"cpu": "2"}))
    assert item["defaultRequest"] == {"cpu": "2"}


def test_only_containers_with_limits_get_defaults(kinds: Definitions) -> None:
    for kind in ("Pod", "PersistentVolumeClaim"):
        assert decoded_item(kinds, limit(kind, max={"cpu": "4"})) == {"type": kind, "max": {"cpu": "4"}}
    assert decoded_item(kinds, limit("Container")) == {"type": "Container"}
    assert kinds.decode("limitranges", {"metadata": {"name": "a"}})["spec"] == {"limits": None}


def test_amounts_are_rounded_up_to_a_thousandth(kinds: Definitions) -> None:
    assert decoded_item(kinds, limit("Pod", max={"cpu": "1500u"}))["max"] == {"cpu": "2m"}


def test_create_without_a_name_uses_the_uid(kinds: Definitions) -> None:
    stored = kinds.stored("limitranges", {"spec": {"limits": []}})
    assert stored["metadata"]["name"] == stored["metadata"]["uid"]
    assert kinds.create_causes("limitranges", limits()) == []


CASES: list[tuple[dict[str, Any], str, str]] = [
    (
        limit("Planet"),
        "type",
        'Invalid value: "Planet": must be a standard limit type or fully qualified',
    ),
    (
        limit("Pod", default={"cpu": "1"}),
        "default",
        "Forbidden: may not be specified when `type` is 'Pod'",
    ),
    (
        limit("Pod", defaultRequest={"cpu": "1"}),
        "defaultRequest",
        "Forbidden: may not be specified when `type` is 'Pod'",
    ),
    (
        limit("PersistentVolumeClaim", max={"cpu": "1"}),
        "limits",
        "Required value: either minimum or maximum storage value is required, but neither was provided",
    ),
    (
        limit("Pod", max={"cpu": "1"}, min={"cpu": "2"}),
        "min[cpu]",
        'Invalid value: "2": min value 2 is greater than max value 1',
    ),
    (
        limit("Container", min={"cpu": "2"}, defaultRequest={"cpu": "1"}),
        "defaultRequest[cpu]",
        'Invalid value: "1": min value 2 is greater than default request value 1',
    ),
    (
        limit("Container", max={"cpu": "1"}, default={"cpu": "1"}, defaultRequest={"cpu": "1500m"}),
        "defaultRequest[cpu]",
        'Invalid value: "1500m": default request value 1500m is greater than max value 1',
    ),
    (
        limit("Pod", maxLimitRequestRatio={"cpu": "500m"}),
        "maxLimitRequestRatio[cpu]",
        'Invalid value: "500m": ratio 500m is less than 1',
    ),
    (
        limit("Pod", min={"cpu": "1"}, max={"cpu": "2"}, maxLimitRequestRatio={"cpu": "3"}),
        "maxLimitRequestRatio[cpu]",
        'Invalid value: "3": ratio 3 is greater than max/min = 2.000000',
    ),
    (
        limit("Container", default={"hugepages-2Mi": "4Mi"}, defaultRequest={"hugepages-2Mi": "2Mi"}),
        "defaultRequest[hugepages-2Mi]",
        'Invalid value: "2Mi": default value 4Mi must equal to defaultRequest value 2Mi in hugepages-2Mi',
    ),
    (
        limit("Pod", max={"pods": "1"}),
        "max[pods]",
        'Invalid value: "pods": must be a standard resource for containers',
    ),
]


@cases(("document", "field", "message"), CASES)
def test_create_reports_invalid_limits(kinds: Definitions, document: Any, field: str, message: str) -> None:
    assert kinds.create_causes("limitranges", document)[0] == (f"spec.limits[0].{field}", message)


def test_defaults_are_between_min_and_max(kinds: Definitions) -> None:
    causes = kinds.create_causes(
        "limitranges", limit("Container", default={"cpu": "1"}, defaultRequest={"cpu": "2"})
    )
    assert causes == [
        (
            "spec.limits[0].defaultRequest[cpu]",
            'Invalid value: "2": default request value 2 is greater than default limit value 1',
        )
    ]
    causes = kinds.create_causes(
        "limitranges", limit("Container", min={"cpu": "2"}, default={"cpu": "1"}, defaultRequest={"cpu": "2"})
    )
    assert (
        "spec.limits[0].default[cpu]",
        'Invalid value: "2": min value 2 is greater than default value 1',
    ) in causes
    causes = kinds.create_causes("limitranges", limit("Container", max={"cpu": "1"}, default={"cpu": "2"}))
    assert (
        "spec.limits[0].default[cpu]",
        'Invalid value: "1": default value 2 is greater than max value 1',
    ) in causes


def test_types_are_unique(kinds: Definitions) -> None:
    assert kinds.create_causes("limitranges", limits({"type": "Pod"}, {"type": "Pod"})) == [
        ("spec.limits[1].type", 'Duplicate value: "Pod"')
    ]


def test_qualified_types_and_extended_resources_are_accepted(kinds: Definitions, names: Names) -> None:
    assert kinds.create_causes("limitranges", limit("example.com/Thing", max={"pods": "1"})) == []
    assert (
        kinds.create_causes("limitranges", limit("Pod", max={"example.com/gpu": "1", names.key("x"): "1"}))
        == []
    )


def test_update_is_validated_like_create(kinds: Definitions) -> None:
    before = limit("Pod", max={"cpu": "1"})
    assert kinds.update("limitranges", before, limit("Pod", max={"cpu": "2"}))[1] == []
    _, causes = kinds.update("limitranges", before, limit("Planet"))
    assert [field for field, _ in causes] == ["spec.limits[0].type"]
    assert (
        kinds["limitranges"].strategy.allow_create_on_update
        and not kinds["limitranges"].deletion.returns_object
    )
