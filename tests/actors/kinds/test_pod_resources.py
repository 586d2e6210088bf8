"""Pod: requests and limits: names, amounts, and how they relate."""

from __future__ import annotations

from typing import Any

import pytest

from actors.names import Names
from tests.actors.kinds.declared import Declared
from tests.actors.kinds.pods import CONTAINER, QUALIFIED, pod, wrong, wrong_container

NOT_FOR_CONTAINERS = "must be a standard resource for containers"
NO_LIMIT = "Required value: Limit must be set for non overcommitable resources"


def test_ordinary_amounts(kinds: Declared) -> None:
    limits = {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi", "example.com/gpu": "2"}
    requests = {"cpu": "500m", "memory": "1024Mi", "example.com/gpu": "2"}
    assert wrong_container(kinds, resources={"limits": limits, "requests": requests}) == []


@pytest.mark.parametrize(
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
def test_names(kinds: Declared, name: str, causes: list[str]) -> None:
    resources = {"limits": {name: "1"}, "requests": {name: "1"}}
    found = wrong_container(kinds, resources=resources)
    assert found == [
        (f"resources.{part}[{name}]", f'Invalid value: "{name}": {text}')
        for part in ("limits", "requests")
        for text in causes
    ]


def test_names_of_the_api_need_not_be_counted(kinds: Declared, names: Names) -> None:
    resources = {"requests": {names.key("batch"): "500m"}}
    assert wrong_container(kinds, resources=resources) == []


def test_negative_amounts(kinds: Declared) -> None:
    text = 'Invalid value: "-1": must be greater than or equal to 0'
    assert wrong_container(kinds, resources={"requests": {"cpu": "-1"}}) == [
        ("resources.requests[cpu]", text)
    ]
    limits = wrong_container(kinds, resources={"limits": {"cpu": "-1"}, "requests": {"cpu": "-1"}})
    assert limits == [("resources.limits[cpu]", text), ("resources.requests[cpu]", text)]


def test_what_others_offer_is_counted(kinds: Declared) -> None:
    found = wrong_container(kinds, resources={"limits": {"example.com/gpu": "500m"}})
    text = 'Invalid value: "500m": must be an integer'
    assert found == [
        ("resources.limits[example.com/gpu]", text),
        ("resources.requests[example.com/gpu]", text),
    ]


def test_nobody_asks_for_more_than_it_may_use(kinds: Declared) -> None:
    resources = {"limits": {"cpu": "1"}, "requests": {"cpu": "1001m"}}
    assert wrong_container(kinds, resources=resources) == [
        ("resources.requests", 'Invalid value: "1001m": must be less than or equal to cpu limit')
    ]


def test_what_others_offer_cannot_be_promised_twice(kinds: Declared) -> None:
    gpu = "example.com/gpu"
    assert wrong_container(kinds, resources={"requests": {gpu: "1"}}) == [("resources.limits", NO_LIMIT)]
    resources = {"limits": {gpu: "2"}, "requests": {gpu: "1"}}
    assert wrong_container(kinds, resources=resources) == [
        ("resources.requests", f'Invalid value: "1": must be equal to {gpu} limit')
    ]


def test_huge_pages(kinds: Declared) -> None:
    pages = {"hugepages-2Mi": "4Mi"}
    both = {"limits": {**pages, "cpu": "1"}, "requests": {**pages, "cpu": "1"}}
    assert wrong_container(kinds, resources=both) == []
    assert wrong_container(kinds, resources={"limits": pages, "requests": pages}) == [
        ("resources", "Forbidden: HugePages require cpu or memory")
    ]
    assert wrong_container(kinds, resources={"requests": {**pages, "cpu": "1"}}) == [
        ("resources.limits", NO_LIMIT)
    ]


@pytest.mark.parametrize(("name", "amount"), [("hugepages-2Mi", "3Mi"), ("hugepages-x", "1")])
def test_huge_pages_are_whole(kinds: Declared, name: str, amount: str) -> None:
    resources = {"limits": {name: amount, "cpu": "1"}}
    text = f'Invalid value: "{amount}": {amount} is not positive integer multiple of {name}'
    assert wrong_container(kinds, resources=resources) == [
        (f"resources.limits[{name}]", text),
        (f"resources.requests[{name}]", text),
    ]


def test_parts_of_pages_stay_allowed_where_they_are(kinds: Declared) -> None:
    amounts = {"hugepages-2Mi": "3Mi", "cpu": "1"}
    resources = {"limits": amounts, "requests": amounts}
    document = pod(containers=[{**CONTAINER, "resources": resources}])
    assert kinds.created("pods", document) != []
    _, causes = kinds.replaced("pods", document, document)
    assert causes == []


@pytest.mark.parametrize(
    ("overhead", "fields"),
    [
        ({"cpu": "10m", "memory": "1Mi"}, []),
        ({"pods": "1"}, ["spec.overhead.limits[pods]"]),
        ({"cpu": "-1"}, ["spec.overhead.limits[cpu]"]),
    ],
)
def test_overhead(kinds: Declared, overhead: Any, fields: list[str]) -> None:
    assert [field for field, _ in wrong(kinds, overhead=overhead)] == fields
