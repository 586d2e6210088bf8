"""Admission policies of users who may write them: expressions that use up their cost limit, and many long ones."""

from __future__ import annotations

import json
from typing import Any

import trio

from benchmarks.attacks.outside import MAPS, create
from benchmarks.attacks.target import Run, Target, attacks, many, post, read_response

_GROUP = "/apis/admissionregistration.k8s.io/v1"
POLICIES, BINDINGS = (f"{_GROUP}/validatingadmissionpolic{ending}" for ending in ("ies", "ybindings"))
MUTATING, MUTATING_BINDINGS = (f"{_GROUP}/mutatingadmissionpolic{ending}" for ending in ("ies", "ybindings"))
MANY, LONG = 100, 10_000  # policies, and bytes of each
# Three nested loops over a hundred entries: the limit ends them.
_LOOPS = "object.data.all(a, object.data.all(b, object.data.all(c, a + b + c != 'x')))"
_RULES = [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]


def _policy(name: str, expression: str) -> dict[str, Any]:
    spec = {
        "failurePolicy": "Ignore",
        "matchConstraints": {"resourceRules": _RULES},
        "validations": [{"expression": expression}],
    }
    return {"metadata": {"name": name}, "spec": spec}


def _binding(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}}


def _writes(entries: int) -> bytes:
    data = {f"key-{number}": "value" for number in range(entries)}
    body = json.dumps({"metadata": {"generateName": "a-"}, "data": data}).encode()
    return post(f"{MAPS}?dryRun=All", body)


async def _costly(target: Target) -> None:
    for number in range(5):
        await create(target, POLICIES, _policy(f"costly-{number}", _LOOPS))
        await create(target, BINDINGS, _binding(f"costly-{number}"))


async def _write_costly(target: Target) -> None:
    await many(target, 8, _writes(100))


def _long(number: int) -> str:
    """An expression that is a little different for each policy, so that nothing can be shared."""
    part = f"object.metadata.name != 'name-{number}'"
    return " && ".join([part] * (LONG // (len(part) + 4)))


async def _many_policies(target: Target) -> None:
    for number in range(MANY):
        await create(target, POLICIES, _policy(f"long-{number}", _long(number)))
        await create(target, BINDINGS, _binding(f"long-{number}"))


async def _write_many(target: Target) -> None:
    await many(target, 8, _writes(1))


async def _change_policies(target: Target) -> None:
    """Each change compiles the policy again, with the next write that it matches."""
    async with trio.open_nursery() as nursery:
        for number in range(4):
            nursery.start_soon(_change, target, number)
        nursery.start_soon(many, target, 4, _writes(1))
        await target.over()
        nursery.cancel_scope.cancel()


async def _change(target: Target, first: int) -> None:
    count = first
    async with await target.connect() as stream:
        while True:
            patch = {"spec": {"validations": [{"expression": _long(1000 + count)}]}}
            body = json.dumps(patch).encode()
            path = f"{POLICIES}/long-{count % MANY}"
            await stream.send_all(post(path, body, method="PATCH", kind="merge-patch+json"))
            await read_response(stream)
            count += 4


async def _mutating(target: Target) -> None:
    expression = (
        "Object{metadata: Object.metadata{annotations: {'a': "
        "string(object.data.map(a, object.data.map(b, a + b)).size())}}}"
    )
    spec = {
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": {"resourceRules": _RULES},
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}],
    }
    for number in range(5):
        name = f"mutates-{number}"
        await create(target, MUTATING, {"metadata": {"name": name}, "spec": spec})
        await create(target, MUTATING_BINDINGS, {"metadata": {"name": name}, "spec": {"policyName": name}})


def _of(run: Run, prepare: Run, name: str) -> dict[str, Any]:
    return attacks("writers of policies", {name: run}, prepare=prepare, dialect="kubernetes")


POLICY_WRITERS = {
    **_of(_write_costly, _costly, "policies whose expressions reach the limit of costs"),
    **_of(_write_many, _many_policies, "100 policies of 1 MB in all"),
    **_of(_change_policies, _many_policies, "changes of long policies"),
    **_of(_write_costly, _mutating, "mutating policies with loops"),
}
