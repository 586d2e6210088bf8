"""What mutating policies do with writes: order, parameters, conditions, reinvocation and errors."""

from __future__ import annotations

from typing import Any

import pytest

from rewound.actors.errors import MutationDenied
from tests.actors.admission.policies.policy_store import PolicyStore, open_policy_store
from tests.actors.object_store import Document, Refused

KIND = {"apiVersion": "v1", "kind": "ConfigMap"}


async def made(store: PolicyStore, **metadata: Any) -> Document:
    body: Document = {"metadata": {"name": "a", **metadata}, "data": {"k": "v"}}
    return (await store.create("configmaps", body, dryRun="All"))["data"]


def patch(text: str) -> Document:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": text}}


async def test_policies_change_objects_by_name_and_each_sees_what_the_last_has_left() -> None:
    async with open_policy_store() as store:
        await store.mutating("b", "Object{data: {'b': object.data.a + '2'}}")
        await store.mutating(
            "a", "Object{data: {'a': variables.x}}", variables=[{"name": "x", "expression": "'1'"}]
        )
        assert await made(store) == {"a": "1", "b": "12", "k": "v"}
        await store.delete("mutatingadmissionpolicybindings", "b")
        await store.mutating("c", mutations=[patch("[JSONPatch{op: 'remove', path: '/data/a'}]")])
        assert await made(store) == {"k": "v"}


async def test_parameters_are_applied_one_after_another() -> None:
    selected = {"selector": {"matchLabels": {"p": "1"}}, "parameterNotFoundAction": "Deny"}
    async with open_policy_store() as store:
        for name in ("p1", "p2"):
            param = {"metadata": {"name": name, "labels": {"p": "1"}}, "data": {"x": name}}
            await store.create("configmaps", param)
        text = "Object{data: {params.data.x: object.data.?p1.orValue('none')}}"
        await store.mutating("a", text, paramKind=KIND, binding={"paramRef": selected})
        assert await made(store) == {"k": "v", "p1": "none", "p2": "none"}
        await store.mutating("b", "Object{data: {'never': '1'}}", paramKind={**KIND, "kind": "Missing"})
        with pytest.raises(Refused, match=r'policy "b" denied request: failed to configure policy'):
            await made(store)


async def test_missing_parameters_refuse_unless_they_are_ignored() -> None:
    reference = {"paramRef": {"name": "none", "parameterNotFoundAction": "Deny"}}
    async with open_policy_store() as store:
        text = "Object{data: {'a': '1'}}"
        await store.mutating("a", text, paramKind=KIND, binding=reference, failurePolicy="Ignore")
        assert await made(store) == {"k": "v"}
        await store.mutating("b", text, paramKind=KIND, binding=reference)
        with pytest.raises(
            Refused, match="policy 'b' with binding 'b' denied request: failed to configure binding"
        ):
            await made(store)


async def test_conditions_see_earlier_changes_and_errors_of_all_mutations_are_reported() -> None:
    async with open_policy_store() as store:
        await store.mutating(
            "a", "Object{data: {'a': '1'}}", matchConditions=condition("!('a' in object.data)")
        )
        await store.mutating(
            "b", "Object{data: {'b': '1'}}", matchConditions=condition("object.data.a == '1'")
        )
        assert await made(store) == {"a": "1", "b": "1", "k": "v"}
        failing = "Object{data: {'c': object.data.missing}}"
        await store.mutating("c", failing, "Object{data: {'d': '1'}}", failurePolicy="Ignore")
        assert await made(store) == {"a": "1", "b": "1", "d": "1", "k": "v"}
        await store.mutating("d", failing, matchConditions=condition("object.data.missing == '1'"))
        await store.mutating("e", failing, failing)
        with pytest.raises(Refused) as refused:
            await made(store)
        assert isinstance(refused.value.__cause__, MutationDenied)
        assert [one.message.split("'")[1] for one in refused.value.__cause__.causes] == ["d", "e", "e"]


async def test_policies_run_again_if_the_object_has_changed_since() -> None:
    async with open_policy_store() as store:
        text = "Object{data: {'seen': object.data.?z.orValue('none')}}"
        await store.mutating("a", text, reinvocationPolicy="IfNeeded")
        await store.mutating("b", text.replace("seen", "once"))
        await store.mutating("z", "Object{data: {'z': object.data.?z.orValue('') + 'z'}}")
        assert await made(store) == {"k": "v", "once": "none", "seen": "z", "z": "z"}


@pytest.mark.parametrize(
    ("match", "matches"),
    [
        ({"objectSelector": {"matchLabels": {"app": "web"}}}, True),
        ({"objectSelector": {"matchLabels": {"app": "db"}}}, False),
        ({"namespaceSelector": {"matchLabels": {"cluster.io/metadata.name": "default"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"x": "y"}}}, False),
    ],
)
async def test_selectors(match: Document, matches: bool) -> None:
    async with open_policy_store() as store:
        await store.mutating("a", "Object{data: {'a': '1'}}", match=match)
        assert ("a" in await made(store, labels={"app": "web"})) is matches


async def test_deletes_are_not_changed() -> None:
    async with open_policy_store() as store:
        await store.create("configmaps", {"metadata": {"name": "a"}})
        await store.mutating("a", "Object{data: {'a': object.data.missing}}")
        await store.delete("configmaps", "a")


async def test_large_policies_change_objects_in_a_thread() -> None:
    async with open_policy_store() as store:
        await store.mutating("a", f"Object{{data: {{'a': '{'x' * 2000}'}}}}")
        assert len((await made(store))["a"]) == 2000


def condition(text: str) -> list[Document]:
    return [{"name": "c", "expression": text}]
