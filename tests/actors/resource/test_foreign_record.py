"""Which objects that other programs wrote to etcd are valid: only what this server could have stored."""

import orjson
import pytest

from rewound.actors.kinds.apiextensions import definition_type
from rewound.actors.resource.foreign_record import ForeignRecords
from rewound.actors.store.document import without_version
from rewound.actors.store.etcd.records import Unreadable
from tests.cases import checking
from tests.gateway.api import Api, served
from tests.settling import settled


async def test_every_object_that_the_server_stores_is_a_valid_record() -> None:
    """The check of foreign records accepts what this server writes, unchanged."""
    async with served(dialect="kubernetes") as api:
        crd = {
            "metadata": {"name": "boats.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"plural": "boats", "kind": "Boat"},
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {
                            "openAPIV3Schema": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                            }
                        },
                    }
                ],
            },
        }
        await api.create("customresourcedefinitions", crd)
        await settled()
        boat = {"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": "b"}, "spec": {"x": 1}}
        path = "/apis/example.com/v1/namespaces/default/boats"
        (await api.ask("POST", path, boat)).expect(201)
        assert api.store is not None
        checked = check_all(api)
        assert "boats.example.com" in checked and "namespaces" in checked and len(checked) > 10


def check_all(api: Api) -> set[str]:
    store = api.store
    assert store is not None
    records = ForeignRecords(store.registry, store.journal, definition_type(store.names))
    checked = set()
    with store.journal.read() as view:
        for type_name, type_id in store.journal.types().items():
            for namespace, name, row in view.rows(type_id):
                body = without_version(row.body, row.offset)
                assert records.check(type_name, namespace, name, body) == (row.facts, body), (type_name, name)
                checked.add(type_name)
    return checked


REFUSED = {
    "not JSON": b"{",
    "no object": b"[]",
    "no metadata": b"{}",
    "another name": {"metadata": {"name": "y", "namespace": "default", "uid": "u", "creationTimestamp": "t"}},
    "another namespace": {"metadata": {"name": "x", "namespace": "z", "uid": "u", "creationTimestamp": "t"}},
    "no uid": {"metadata": {"name": "x", "namespace": "default", "creationTimestamp": "t"}},
    "wrong type": {"data": {"a": 5}},
    "unknown field": {"what": 1},
    "another kind": {"kind": "Pod"},
}


async def test_records_that_are_not_valid() -> None:
    metadata = {"name": "x", "namespace": "default", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    async with served() as api:
        assert api.store is not None
        check = ForeignRecords(api.store.registry, api.store.journal, definition_type(api.store.names)).check
        facts, body = check("configmaps", "default", "x", orjson.dumps({"metadata": metadata}))
        assert facts and b'"resourceVersion":""' in body
        with checking() as case:
            for name, document in REFUSED.items():
                given = (
                    document
                    if isinstance(document, bytes)
                    else orjson.dumps({"metadata": metadata} | document)
                )
                with case(name), pytest.raises(Unreadable):
                    check("configmaps", "default", "x", given)
        owned = {"metadata": {**metadata, "ownerReferences": [{"kind": "Pod"}]}}
        for type_name, incomplete in (("configmaps", owned), ("pods", {"metadata": metadata})):
            with pytest.raises(Unreadable, match="it lacks what every object of its kind has"):
                check(type_name, "default", "x", orjson.dumps(incomplete))
        for type_name, namespace, name in (("unknown", "default", "x"), ("namespaces", "default", "x")):
            with pytest.raises(Unreadable):
                check(type_name, namespace, name, orjson.dumps({"metadata": metadata}))
