"""Pod: requests and limits: names, amounts, and how they relate."""

from __future__ import annotations

from typing import Any

from rewound.actors.names import Names
from tests.actors.kinds.definitions import Definitions
from tests.actors.kinds.pods import CONTAINER, QUALIFIED, container_causes, create_causes, pod
from tests.cases import cases

NOT_FOR_CONTAINERS = "must be a standard resource for containers"
NO_LIMIT = "Required value: Limit must be set for non overcommitable resources"


def test_valid_requests_and_limits(kinds: Definitions) -> None:
    limits = {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi", "example.com/gpu": "2"}
    requests = {"cpu": "500m", "memory": "1024Mi", "example.com/gpu": "2"}
    assert container_causes(kinds, resources={"limits": limits, "requests": requests}) == []


@cases(
    ("name", "causes"),
    [
        ("pods", [NOT_FOR_CONTAINERS]),
        ("storage", [NOT_FOR_CONTAINERS]),
        ("gpu", ["must be a standard resource type or fully qualified", NOT_FOR_CONTAINERS]),
        ("a b", [QUALIFIED, NOT_FOR_CONTAINERS]),
        ("requests.example.com/x", ["doesn't follow extended resource name standard"]),
        ("example.com/" + "x" * 63, []),
    ],
)
def test_resource_names_are_validated(kinds: Definitions, name: str, causes: list[str]) -> None:
    resources = {"limits": {name: "1"}, "requests": {name: "1"}}
    found = container_causes(kinds, resources=resources)
    assert found == [
        (f"resources.{part}[{name}]", f'Invalid value: "{name}": {text}')
        for part in ("limits", "requests")
        for text in causes
    ]


def test_resources_of_the_api_domain_may_be_fractional(kinds: Definitions, names: Names) -> None:
    resources = {"requests": {names.key("batch"): "500m"}}
    assert container_causes(kinds, resources=resources) == []


def test_amounts_cannot_be_negative(kinds: Definitions) -> None:
    text = 'Invalid value: "-1": must be greater than or equal to 0'
    assert container_causes(kinds, resources={"requests": {"cpu": "-1"}}) == [
        ("resources.requests[cpu]", text)
    ]
    limits = container_causes(kinds, resources={"limits": {"cpu": "-1"}, "requests": {"cpu": "-1"}})
    assert limits == [("resources.limits[cpu]", text), ("resources.requests[cpu]", text)]


def test_extended_resources_are_integers(kinds: Definitions) -> None:
    found = container_causes(kinds, resources={"limits": {"example.com/gpu": "500m"}})
    text = 'Invalid value: "500m": must be an integer'
    assert found == [
        ("resources.limits[example.com/gpu]", text),
        ("resources.requests[example.com/gpu]", text),
    ]


def test_requests_cannot_exceed_limits(kinds: Definitions) -> None:
    resources = {"limits": {"cpu": "1"}, "requests": {"cpu": "1001m"}}
    assert container_causes(kinds, resources=resources) == [
        ("resources.requests", 'Invalid value: "1001m": must be less than or equal to cpu limit')
    ]


def test_extended_resources_cannot_be_overcommitted(kinds: Definitions) -> None:
    gpu = "example.com/gpu"
    assert container_causes(kinds, resources={"requests": {gpu: "1"}}) == [("resources.limits", NO_LIMIT)]
    resources = {"limits": {gpu: "2"}, "requests": {gpu: "1"}}
    assert container_causes(kinds, resources=resources) == [
        ("resources.requests", f'Invalid value: "1": must be equal to {gpu} limit')
    ]


def test_huge_pages_need_limits_and_cpu_or_memory(kinds: Definitions) -> None:
    pages = {"hugepages-2Mi": "4Mi"}
    both = {"limits": {**pages, "cpu": "1"}, "requests": {**pages, "cpu": "1"}}
    assert container_causes(kinds, resources=both) == []
    assert container_causes(kinds, resources={"limits": pages, "requests": pages}) == [
        ("resources", "Forbidden: HugePages require cpu or memory")
    ]
    assert container_causes(kinds, resources={"requests": {**pages, "cpu": "1"}}) == [
        ("resources.limits", NO_LIMIT)
    ]


@cases(("name", "amount"), [("hugepages-2Mi", "3Mi"), ("hugepages-x", "1")])
def test_huge_pages_are_multiples_of_the_page_size(kinds: Definitions, name: str, amount: str) -> None:
    resources = {"limits": {name: amount, "cpu": "1"}}
    text = f'Invalid value: "{amount}": {amount} is not positive integer multiple of {name}'
    assert container_causes(kinds, resources=resources) == [
        (f"resources.limits[{name}]", text),
        (f"resources.requests[{name}]", text),
    ]


def test_update_may_keep_stored_indivisible_huge_pages(kinds: Definitions) -> None:
    amounts = {"hugepages-2Mi": "3Mi", "cpu": "1"}
    resources = {"limits": amounts, "requests": amounts}
    document = pod(containers=[{**CONTAINER, "resources": resources}])
    assert kinds.create_causes("pods", document) != []
    _, causes = kinds.update("pods", document, document)
    assert causes == []


@cases(
    ("overhead", "fields"),
    [
        ({"cpu": "10m", "memory": "1Mi"}, []),
        ({"pods": "1"}, ["spec.overhead.limits[pods]"]),
        ({"cpu": "-1"}, ["spec.overhead.limits[cpu]"]),
    ],
)
def test_overhead_is_validated(kinds: Definitions, overhead: Any, fields: list[str]) -> None:
    assert [field for field, _ in create_causes(kinds, overhead=overhead)] == fields
