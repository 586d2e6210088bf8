"""Which webhooks a write must call, and the cost of finding that there are none."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rewound.actors.admission.request import CREATE, UPDATE, AdmissionRequest
from rewound.actors.admission.webhooks.candidates import Candidates, Match
from rewound.actors.admission.webhooks.hook import hooks_of
from rewound.actors.admission.webhooks.matching import Configurations
from rewound.actors.admission.webhooks.selector import Requirement, Selector
from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.declaration.meta import label_selector_matches
from rewound.actors.messages import Object
from rewound.actors.names import CLUSTER
from tests.actors.admission.admitted import CONTEXT
from tests.actors.object_store import Store, open_store

MAPS = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
MANY = 200
EVALUATIONS = {Selector.matches.__code__, Requirement.is_met.__code__}

KEYS, VALUES = st.sampled_from("abc"), st.sampled_from("xyz")
labels = st.none() | st.dictionaries(KEYS, VALUES)
requirements = st.one_of(
    st.fixed_dictionaries(
        {
            "key": KEYS,
            "operator": st.sampled_from(["In", "NotIn"]),
            "values": st.lists(VALUES, min_size=1, max_size=2),
        }
    ),
    st.fixed_dictionaries({"key": KEYS, "operator": st.sampled_from(["Exists", "DoesNotExist"])}),
)
selectors = st.fixed_dictionaries(
    {},
    optional={
        "matchLabels": st.dictionaries(KEYS, VALUES, max_size=2),
        "matchExpressions": st.lists(requirements, max_size=2),
    },
)


def hook(**fields: Any) -> dict[str, Any]:
    return {
        "name": "a.example.com",
        "clientConfig": {"url": "https://127.0.0.1/"},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "rules": [MAPS],
        **fields,
    }


def config_map(found: dict[str, str] | None) -> Object | None:
    return None if found is None else {"metadata": {"name": "a", "labels": found}}


def writing(new: Object | None, old: Object | None = None) -> AdmissionRequest:
    definition = next(one for one in built_in(CLUSTER).definitions if one.plural == "configmaps")
    operation = CREATE if old is None else UPDATE
    return AdmissionRequest(operation, definition, "default", "a", "", new, old, "user", False, CONTEXT)


@given(st.lists(selectors, max_size=6), labels, labels)
def test_object_selectors_match_as_when_each_is_evaluated(
    given_selectors: list[Object], new: dict[str, str] | None, old: dict[str, str] | None
) -> None:
    request = writing(config_map(new), config_map(old))
    stored = {"metadata": {"name": "c"}, "webhooks": [hook(objectSelector=one) for one in given_selectors]}
    found = Candidates(
        Match(position, one, request.definition) for position, one in enumerate(hooks_of(stored))
    ).selecting(request)
    assert [one.position for one in found] == [
        position
        for position, one in enumerate(given_selectors)
        if not (one.get("matchLabels") or one.get("matchExpressions"))
        or any(each is not None and label_selector_matches(one, each) for each in (new, old))
    ]


def calls_of(work: Callable[[], Any]) -> tuple[Any, int, int]:
    """The result, the number of Python calls, and how many of these evaluate a selector."""
    calls = evaluations = 0

    def count(frame: FrameType, event: str, _: Any) -> None:
        nonlocal calls, evaluations
        if event == "call":
            calls += 1
            evaluations += frame.f_code in EVALUATIONS

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        result = work()
    finally:
        sys.setprofile(before)
    return result, calls, evaluations


async def configured(store: Store, *hooks: dict[str, Any]) -> Configurations:
    body = {"metadata": {"name": "hooks"}, "webhooks": list(hooks)}
    await store.create("validatingwebhookconfigurations", body)
    return Configurations(CLUSTER, "validating", store.journal, store.feed, lambda _: ())


def named(number: int, **fields: Any) -> dict[str, Any]:
    return hook(**{"name": f"hook-{number}.example.com", **fields})


async def cost_of_none(*hooks: dict[str, Any]) -> tuple[int, int]:
    """The calls and evaluations of a second write that no webhook selects."""
    request = writing({"metadata": {"name": "a", "labels": {"app": "x"}}})
    async with open_store() as store:
        configurations = await configured(store, *hooks)
        configurations.matching(request)
        found, calls, evaluations = calls_of(lambda: configurations.matching(request))
    assert not found
    return calls, evaluations


async def test_many_object_selectors_that_need_other_labels_cost_as_much_as_one() -> None:
    hooks = [named(n, objectSelector={"matchLabels": {f"team-{n}": "x"}}) for n in range(MANY)]
    one, many = await cost_of_none(hooks[0]), await cost_of_none(*hooks)
    assert one == many and many[1] == 0


async def test_many_object_selectors_that_need_other_values_of_a_label_are_not_evaluated() -> None:
    hooks = [named(n, objectSelector={"matchLabels": {"app": f"team-{n}"}}) for n in range(MANY)]
    one, many = await cost_of_none(hooks[0]), await cost_of_none(*hooks)
    assert one == many and many[1] == 0


async def test_equal_object_selectors_are_evaluated_once() -> None:
    unless = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]}
    hooks = [named(n, objectSelector=unless) for n in range(MANY)]
    one, many = await cost_of_none(hooks[0]), await cost_of_none(*hooks)
    assert one == many


async def test_rules_of_other_kinds_and_other_namespaces_are_matched_once() -> None:
    pods = [named(n, rules=[{**MAPS, "resources": ["pods"]}]) for n in range(MANY // 2)]
    away = [named(MANY + n, namespaceSelector={"matchLabels": {f"team-{n}": "x"}}) for n in range(MANY // 2)]
    one, many = await cost_of_none(away[0]), await cost_of_none(*pods, *away)
    assert one == many and many[1] == 0


async def test_namespace_selectors_follow_the_labels_of_the_namespace() -> None:
    request = writing({"metadata": {"name": "a"}})
    async with open_store() as store:
        configurations = await configured(store, hook(namespaceSelector={"matchLabels": {"team": "x"}}))
        assert not configurations.matching(request)
        namespace = await store.get("namespaces", "default")
        namespace["metadata"].setdefault("labels", {})["team"] = "x"
        await store.replace("namespaces", namespace)
        assert configurations.matching(request)
