"""RuntimeClass: an immutable handler, an overhead, and the scheduling of its pods."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.built_in import built_in
from rewound.actors.names import KUBERNETES, Names
from rewound.actors.versions.features import choose_release
from tests.actors.kinds.definitions import Definitions
from tests.cases import cases

PLURAL = "runtimeclasses"


def runtime_class(**parts: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "handler": "h", **parts}


def scheduled(*tolerations: Any, **selector: str) -> dict[str, Any]:
    return runtime_class(scheduling={"nodeSelector": selector, "tolerations": list(tolerations)})


def test_all_fields_are_stored_as_sent(kinds: Definitions) -> None:
    whole = runtime_class(
        overhead={"podFixed": {"cpu": "10m", "memory": "1Mi"}},
        scheduling={"nodeSelector": {"a": "b"}, "tolerations": [{"key": "k", "operator": "Exists"}]},
    )
    assert kinds.decode(PLURAL, whole) == whole
    assert kinds.create_causes(PLURAL, whole) == []


@cases("handler", ["", "Bad_", "a.b", "a" * 64])
def test_handler_must_be_a_dns_label(kinds: Definitions, handler: str) -> None:
    assert [field for field, _ in kinds.create_causes(PLURAL, runtime_class(handler=handler))] == ["handler"]


def test_handler_is_immutable(kinds: Definitions) -> None:
    assert kinds.update(PLURAL, runtime_class(), runtime_class(handler="g"))[1] == [
        ("handler", 'Invalid value: "g": field is immutable')
    ]
    other = runtime_class(overhead={"podFixed": {"cpu": "1"}})
    assert kinds.update(PLURAL, runtime_class(), other)[1] == []


def test_overhead_is_validated_as_container_resources(kinds: Definitions) -> None:
    negative = runtime_class(overhead={"podFixed": {"cpu": "-1"}})
    assert kinds.create_causes(PLURAL, negative) == [
        ("overhead.limits[cpu]", 'Invalid value: "-1": must be greater than or equal to 0')
    ]
    stray = runtime_class(overhead={"podFixed": {"pods": "1"}})
    assert [field for field, _ in kinds.create_causes(PLURAL, stray)] == ["overhead.limits[pods]"]
    fine = runtime_class(overhead={"podFixed": {"cpu": "1500u"}})
    assert kinds.decode(PLURAL, fine)["overhead"]["podFixed"] == {"cpu": "1500u"}


def test_create_reports_invalid_scheduling(kinds: Definitions) -> None:
    assert [field for field, _ in kinds.create_causes(PLURAL, scheduled(**{"bad key": "v"}))] == [
        "scheduling.nodeSelector"
    ]
    one = {"key": "k", "operator": "Exists"}
    assert kinds.create_causes(PLURAL, scheduled(one, one)) == [
        (
            "scheduling.tolerations[1]",
            'Duplicate value: core.Toleration{Key:"k", Operator:"Exists", Value:"", Effect:"", '
            "TolerationSeconds:(*int64)(nil)}",
        )
    ]
    longer = {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    assert kinds.create_causes(PLURAL, scheduled(one, longer)) == []
    assert [field for field, _ in kinds.create_causes(PLURAL, scheduled({"operator": "Equal"}))] == [
        "scheduling.tolerations.tolerations[0].operator"
    ]


def test_later_versions_name_the_list_once_and_print_json() -> None:
    kinds = Definitions(built_in(KUBERNETES, choose_release("1.36")))
    one = {"key": "k", "operator": "Exists"}
    printed = '{"Key":"k","Operator":"Exists","Value":"","Effect":"","TolerationSeconds":null}'
    assert kinds.create_causes(PLURAL, scheduled(one, one)) == [
        ("scheduling.tolerations[1]", f"Duplicate value: {printed}")
    ]
    assert [field for field, _ in kinds.create_causes(PLURAL, scheduled({"operator": "Equal"}))] == [
        "scheduling.tolerations[0].operator"
    ]


def test_deprecated_node_labels_cause_warnings(kinds: Definitions, names: Names) -> None:
    stored = kinds.stored(PLURAL, scheduled(**{names.key("os", "beta"): "linux"}))
    assert kinds[PLURAL].strategy.warnings(stored, None) == [
        f'scheduling.nodeSelector: deprecated since v1.14; use "{names.key("os")}" instead'
    ]


def test_update_may_create_and_needs_a_resource_version(kinds: Definitions) -> None:
    assert (
        kinds[PLURAL].strategy.allow_create_on_update
        and not kinds[PLURAL].strategy.allow_unconditional_update
    )
