"""Pod: images, a shorter deadline and more tolerations may change; nothing else may."""

from __future__ import annotations

from typing import Any

from tests.actors.kinds.definitions import Definitions
from tests.actors.kinds.pods import CONTAINER, pod, update_causes
from tests.cases import cases

INIT = {"name": "i", "image": "x:1"}
TOLERATION = {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
MUTABLE_FIELDS = (
    "Forbidden: pod updates may not change fields other than `spec.containers[*].image`, "
    "`spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, `spec.tolerations` (only additions to "
    "existing tolerations) or `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
    "previously negative)\n"
)


def update_spec_causes(
    kinds: Definitions, before: dict[str, Any], after: dict[str, Any]
) -> list[tuple[str, str]]:
    return update_causes(kinds, pod(**before), pod(**after))


@cases(
    ("before", "after"),
    [
        ({}, {"containers": [{**CONTAINER, "image": "img:2", "imagePullPolicy": "IfNotPresent"}]}),
        ({"initContainers": [INIT]}, {"initContainers": [{**INIT, "image": "x:2"}]}),
        ({}, {"activeDeadlineSeconds": 5}),
        ({"activeDeadlineSeconds": 5}, {"activeDeadlineSeconds": 4}),
        ({}, {"tolerations": [TOLERATION]}),
        ({"tolerations": [TOLERATION]}, {"tolerations": [{**TOLERATION, "tolerationSeconds": 9}]}),
        ({"tolerations": [TOLERATION]}, {"tolerations": [{"operator": "Exists"}, TOLERATION]}),
        ({"terminationGracePeriodSeconds": -1}, {"terminationGracePeriodSeconds": 1}),
        ({}, {"metadata": {"labels": {"a": "b"}}}),
        (
            {"containers": [{**CONTAINER, "resources": {"limits": {"memory": "1Mi"}}}]},
            {"containers": [{**CONTAINER, "resources": {"limits": {"memory": "1048576"}}}]},
        ),
    ],
)
def test_update_of_mutable_field_is_valid(kinds: Definitions, before: Any, after: Any) -> None:
    assert update_spec_causes(kinds, before, after) == []


@cases(
    ("before", "after", "lines"),
    [
        ({}, {"hostname": "h"}, '+ spec.hostname: "h"\n'),
        (
            {"nodeSelector": {"a": "b"}},
            {"nodeSelector": {"a": "c"}},
            '- spec.nodeSelector.a: "b"\n+ spec.nodeSelector.a: "c"\n',
        ),
        ({"nodeName": "n"}, {}, '- spec.nodeName: "n"\n'),
        (
            {},
            {"containers": [{**CONTAINER, "args": ["x"]}]},
            '+ spec.containers[0].args: ["x"]\n',
        ),
        (
            {},
            {"containers": [{**CONTAINER, "image": "img"}]},
            '- spec.containers[0].imagePullPolicy: "IfNotPresent"\n'
            '+ spec.containers[0].imagePullPolicy: "Always"\n',
        ),
        (
            {"terminationGracePeriodSeconds": 5},
            {"terminationGracePeriodSeconds": 1},
            "- spec.terminationGracePeriodSeconds: 5\n+ spec.terminationGracePeriodSeconds: 1\n",
        ),
    ],
)
def test_update_of_immutable_field_names_the_differences(
    kinds: Definitions, before: Any, after: Any, lines: str
) -> None:
    assert update_spec_causes(kinds, before, after) == [("spec", MUTABLE_FIELDS + lines)]


def test_long_differences_are_truncated(kinds: Definitions) -> None:
    labels = {f"k{number}": "v" for number in range(100)}
    ((_, text),) = update_spec_causes(kinds, {}, {"nodeSelector": labels, "hostname": "h"})
    assert len(text) < 2000
    many = {"nodeSelector": dict.fromkeys(labels, "w")}
    ((_, text),) = update_spec_causes(kinds, {"nodeSelector": labels}, many)
    assert text.endswith("  ...\n") and text.count("\n") < 50


def test_update_cannot_add_or_remove_containers(kinds: Definitions) -> None:
    two = {"containers": [CONTAINER, {**CONTAINER, "name": "d"}]}
    text = "Forbidden: pod updates may not add or remove containers"
    assert update_spec_causes(kinds, {}, two) == [("spec.containers", text)]
    assert update_spec_causes(kinds, two, {}) == [("spec.containers", text)]
    assert update_spec_causes(kinds, {"initContainers": [INIT]}, {}) == [("spec.initContainers", text)]


@cases(
    ("before", "after", "text"),
    [
        (5, 6, "Invalid value: 6: must be less than or equal to previous value"),
        (5, None, 'Invalid value: "null": must not update from a positive integer to nil value'),
        (None, -1, "Invalid value: -1: must be between 0 and 2147483647, inclusive"),
    ],
)
def test_update_can_only_shorten_the_deadline(kinds: Definitions, before: Any, after: Any, text: str) -> None:
    specs = [{} if value is None else {"activeDeadlineSeconds": value} for value in (before, after)]
    assert ("spec.activeDeadlineSeconds", text) in update_spec_causes(kinds, *specs)


@cases("after", [[], [{**TOLERATION, "key": "z"}], [{**TOLERATION, "operator": "Equal", "value": "x"}]])
def test_update_cannot_change_or_remove_tolerations(kinds: Definitions, after: Any) -> None:
    assert update_spec_causes(kinds, {"tolerations": [TOLERATION]}, {"tolerations": after}) == [
        (
            "spec.tolerations",
            "Forbidden: existing toleration can not be modified except its tolerationSeconds",
        )
    ]


def test_update_validates_images(kinds: Definitions) -> None:
    causes = update_spec_causes(kinds, {}, {"containers": [{**CONTAINER, "image": "img:1 "}]})
    assert (
        "spec.containers[0].image",
        'Invalid value: "img:1 ": must not have leading or trailing whitespace',
    ) in (causes)


def test_update_ignores_the_status(kinds: Definitions) -> None:
    new, causes = kinds.update("pods", pod(), pod(status={"phase": "Failed"}))
    assert causes == [] and new["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
