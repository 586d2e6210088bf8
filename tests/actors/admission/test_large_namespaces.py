"""Whether a large namespace is terminating is known without parsing it."""

from __future__ import annotations

import pytest

from actors.large_work import LARGE_BYTES
from tests.actors.object_store import Refused, open_store


async def test_large_namespace_is_terminating_once_it_is_deleted() -> None:
    long = {"a": "x" * LARGE_BYTES, "b": '"deletionTimestamp":"', "deletionTimestamp": "x"}
    namespace = {"metadata": {"name": "n", "annotations": long, "labels": {"deletionTimestamp": "x"}}}
    async with open_store() as store:
        await store.create("namespaces", namespace, "")
        await store.create("configmaps", {"metadata": {"name": "a"}}, "n")
        await store.delete("namespaces", "n", "")
        with pytest.raises(Refused, match="is being terminated"):
            await store.create("configmaps", {"metadata": {"name": "b"}}, "n")
