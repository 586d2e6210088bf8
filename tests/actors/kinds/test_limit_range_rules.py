"""LimitRange: defaults of containers, names of resources, and the order of amounts."""

from __future__ import annotations

from typing import Any

import pytest

from actors.names import Names
from tests.actors.kinds.declared import Declared


def limits(*items: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": {"limits": list(items)}}


def of(kind: str, **amounts: Any) -> dict[str, Any]:
    return limits({"type": kind, **amounts})


def filled(kinds: Declared, document: Any) -> dict[str, Any]:
    item: dict[str, Any] = kinds.decode("limitranges", document)["spec"]["limits"][0]
    return item


def test_containers_get_what_they_may_have(kinds: Declared) -> None:
    item = filled(kinds, of("Container", max={"cpu": "2"}, min={"memory": "1Mi"}))
    assert item["default"] == {"cpu": "2"}
    assert item["defaultRequest"] == {"cpu": "2", "memory": "1Mi"}
    assert list(item) == ["type", "max", "min", "default", "defaultRequest"]


def test_given_values_are_kept(kinds: Declared) -> None:
    item = filled(kinds, of("Container", max={"cpu": "4"}, default={"cpu": "2"}, defaultRequest={"cpu": "1"}))
    assert item["default"] == {"cpu": "2"} and item["defaultRequest"] == {"cpu": "1"}
    item = filled(kinds, of("Container", max={"cpu": "4"}, min={"cpu": "1"}, default={"cpu": "2"}))
    assert item["defaultRequest"] == {"cpu": "2"}


def test_others_get_nothing(kinds: Declared) -> None:
    for kind in ("Pod", "PersistentVolumeClaim"):
        assert filled(kinds, of(kind, max={"cpu": "4"})) == {"type": kind, "max": {"cpu": "4"}}
    assert filled(kinds, of("Container")) == {"type": "Container"}
    assert kinds.decode("limitranges", {"metadata": {"name": "a"}})["spec"] == {"limits": None}


def test_amounts_are_kept_in_thousandths(kinds: Declared) -> None:
    assert filled(kinds, of("Pod", max={"cpu": "1500u"}))["max"] == {"cpu": "2m"}


def test_it_needs_no_name(kinds: Declared) -> None:
    stored = kinds.stored("limitranges", {"spec": {"limits": []}})
    assert stored["metadata"]["name"] == stored["metadata"]["uid"]
    assert kinds.created("limitranges", limits()) == []


CASES: list[tuple[dict[str, Any], str, str]] = [
    (
        of("Planet"),
        "type",
        'Invalid value: "Planet": must be a standard limit type or fully qualified',
    ),
    (
        of("Pod", default={"cpu": "1"}),
        "default",
        "Forbidden: may not be specified when `type` is 'Pod'",
    ),
    (
        of("Pod", defaultRequest={"cpu": "1"}),
        "defaultRequest",
        "Forbidden: may not be specified when `type` is 'Pod'",
    ),
    (
        of("PersistentVolumeClaim", max={"cpu": "1"}),
        "limits",
        "Required value: either minimum or maximum storage value is required, but neither was provided",
    ),
    (
        of("Pod", max={"cpu": "1"}, min={"cpu": "2"}),
        "min[cpu]",
        'Invalid value: "2": min value 2 is greater than max value 1',
    ),
    (
        of("Container", min={"cpu": "2"}, defaultRequest={"cpu": "1"}),
        "defaultRequest[cpu]",
        'Invalid value: "1": min value 2 is greater than default request value 1',
    ),
    (
        of("Container", max={"cpu": "1"}, default={"cpu": "1"}, defaultRequest={"cpu": "1500m"}),
        "defaultRequest[cpu]",
        'Invalid value: "1500m": default request value 1500m is greater than max value 1',
    ),
    (
        of("Pod", maxLimitRequestRatio={"cpu": "500m"}),
        "maxLimitRequestRatio[cpu]",
        'Invalid value: "500m": ratio 500m is less than 1',
    ),
    (
        of("Pod", min={"cpu": "1"}, max={"cpu": "2"}, maxLimitRequestRatio={"cpu": "3"}),
        "maxLimitRequestRatio[cpu]",
        'Invalid value: "3": ratio 3 is greater than max/min = 2.000000',
    ),
    (
        of("Container", default={"hugepages-2Mi": "4Mi"}, defaultRequest={"hugepages-2Mi": "2Mi"}),
        "defaultRequest[hugepages-2Mi]",
        'Invalid value: "2Mi": default value 4Mi must equal to defaultRequest value 2Mi in hugepages-2Mi',
    ),
    (
        of("Pod", max={"pods": "1"}),
        "max[pods]",
        'Invalid value: "pods": must be a standard resource for containers',
    ),
]


@pytest.mark.parametrize(("document", "field", "message"), CASES)
def test_create(kinds: Declared, document: Any, field: str, message: str) -> None:
    assert kinds.created("limitranges", document)[0] == (f"spec.limits[0].{field}", message)


def test_order_of_defaults(kinds: Declared) -> None:
    causes = kinds.created("limitranges", of("Container", default={"cpu": "1"}, defaultRequest={"cpu": "2"}))
    assert causes == [
        (
            "spec.limits[0].defaultRequest[cpu]",
            'Invalid value: "2": default request value 2 is greater than default limit value 1',
        )
    ]
    causes = kinds.created(
        "limitranges", of("Container", min={"cpu": "2"}, default={"cpu": "1"}, defaultRequest={"cpu": "2"})
    )
    assert (
        "spec.limits[0].default[cpu]",
        'Invalid value: "1": min value 2 is greater than default value 1',
    ) in causes
    causes = kinds.created("limitranges", of("Container", max={"cpu": "1"}, default={"cpu": "2"}))
    assert (
        "spec.limits[0].default[cpu]",
        'Invalid value: "2": default value 2 is greater than max value 1',
    ) in causes


def test_types_are_there_once(kinds: Declared) -> None:
    assert kinds.created("limitranges", limits({"type": "Pod"}, {"type": "Pod"})) == [
        ("spec.limits[1].type", 'Duplicate value: "Pod"')
    ]


def test_resources_and_types_of_others(kinds: Declared, names: Names) -> None:
    assert kinds.created("limitranges", of("example.com/Thing", max={"pods": "1"})) == []
    assert kinds.created("limitranges", of("Pod", max={"example.com/gpu": "1", names.key("x"): "1"})) == []


def test_an_update_has_the_rules_of_a_create(kinds: Declared) -> None:
    before = of("Pod", max={"cpu": "1"})
    assert kinds.replaced("limitranges", before, of("Pod", max={"cpu": "2"}))[1] == []
    _, causes = kinds.replaced("limitranges", before, of("Planet"))
    assert [field for field, _ in causes] == ["spec.limits[0].type"]
    assert (
        kinds["limitranges"].strategy.allow_create_on_update
        and not kinds["limitranges"].deletion.returns_object
    )
