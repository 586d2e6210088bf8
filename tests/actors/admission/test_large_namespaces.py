"""Whether a large namespace is terminating can be determined without parsing it."""

from __future__ import annotations

import orjson
import pytest

from rewound.actors.runtime.large_work import LARGE_BYTES
from rewound.actors.store.document import encode, is_being_deleted
from tests.actors.object_store import Refused, open_store
from tests.cases import cases


async def test_large_namespace_is_terminating_once_it_is_deleted() -> None:
    long = {"a": "x" * LARGE_BYTES, "b": '"deletionTimestamp":"', "deletionTimestamp": "x"}
    namespace = {"metadata": {"name": "n", "annotations": long, "labels": {"deletionTimestamp": "x"}}}
    async with open_store() as store:
        await store.create("namespaces", namespace, "")
        await store.create("configmaps", {"metadata": {"name": "a"}}, "n")
        await store.delete("namespaces", "n", "")
        with pytest.raises(Refused, match="is being terminated"):
            await store.create("configmaps", {"metadata": {"name": "b"}}, "n")


@cases("deleted", [True, False])
@cases("name", ["a", 'a"b\\', "generated"])
def test_deletion_of_an_object_is_known_without_parsing_it(name: str, deleted: bool) -> None:
    metadata = {"name": name, "namespace": "n", "uid": "u", "generation": 2, "creationTimestamp": "t"}
    metadata |= {"labels": {"deletionTimestamp": "x"}, "annotations": {"x": ',"deletionTimestamp":"'}}
    if name == "generated":
        del metadata["generation"]
        metadata["generateName"] = "gen"
    if deleted:
        metadata["deletionTimestamp"] = "t"
    body = encode({"metadata": metadata, "data": {"deletionTimestamp": "x"}}, 7)
    assert is_being_deleted(body) is deleted
    assert is_being_deleted(body[:-1]) is deleted  # cannot have been parsed: this is not JSON
    reordered = orjson.dumps({"metadata": {"uid": "u", **metadata}})  # not in the usual order
    assert is_being_deleted(reordered) is deleted
