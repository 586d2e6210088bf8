"""When a plugin refuses an object before its name is generated, the message has its generateName."""

from __future__ import annotations

import pytest

from tests.actors.object_store import Refused, open_store


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"runtimeClassName": "missing"}, "pod rejected"),
        ({"priorityClassName": "missing"}, "no PriorityClass with name missing was found"),
        ({"serviceAccountName": "missing"}, "error looking up service account default/missing"),
    ],
    ids=["runtime class", "priority class", "account"],
)
async def test_refusal_shows_the_prefix_of_a_generated_name(spec: dict[str, str], why: str) -> None:
    pod = {
        "metadata": {"generateName": "web-"},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }
    async with open_store() as store:
        with pytest.raises(Refused, match=f'pods "web-" is forbidden: {why}'):
            await store.create("pods", pod)
        with pytest.raises(Refused, match=f'pods "mine" is forbidden: {why}'):
            await store.create("pods", {**pod, "metadata": {"name": "mine"}})


async def test_refusal_of_a_terminating_namespace_shows_the_prefix() -> None:
    async with open_store() as store:
        finalizers = ["example.com/hold"]
        await store.create("namespaces", {"metadata": {"name": "ending", "finalizers": finalizers}})
        await store.delete("namespaces", "ending")
        with pytest.raises(Refused, match='configmaps "web-" is forbidden: unable to create new content'):
            await store.create("configmaps", {"metadata": {"generateName": "web-"}}, "ending")
