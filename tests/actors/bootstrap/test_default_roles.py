"""Every start creates the default roles and bindings that are missing, and adds what stored ones lack."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from rewound.actors.allocation.ranges import ServiceRanges
from rewound.actors.bootstrap.bootstrap import Bootstrap, Reconciled, is_as_wanted, reconcile
from rewound.actors.bootstrap.objects import ServingAddress, default_roles
from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.schema.projection import structs_of
from rewound.actors.names import CLUSTER, KUBERNETES
from tests.actors.object_store import Store, open_store
from tests.cases import cases

SERVING = ServingAddress("192.0.2.8", 7443)


def document(kind: str, name: str, names: Any = CLUSTER, version: str = "1.25") -> Any:
    return next(
        found
        for type_name, found in default_roles(names, structs_of(version))
        if type_name.startswith(f"{kind}.") and found["metadata"]["name"] == name
    )


@pytest.mark.parametrize(("version", "allowed"), [("1.26", False), ("1.27", True), ("1.36", True)])
def test_rules_are_those_of_the_version(version: str, allowed: bool) -> None:
    user = document("clusterroles", "system:basic-user", KUBERNETES, version)
    reviewed = [name for rule in user["rules"] for name in rule["resources"]]
    assert ("selfsubjectreviews" in reviewed) == allowed


@pytest.mark.parametrize(("version", "number"), [("1.25", 119), ("1.29", 121), ("1.36", 133)])
def test_roles_and_bindings_are_those_of_the_version(version: str, number: int) -> None:
    found = default_roles(KUBERNETES, structs_of(version))
    assert len(found) == number
    assert all(one.get("rules") for type_name, one in found if "roles." in type_name)


def test_roles_of_gates_exist_with_the_gate() -> None:
    gates = frozenset(("ClusterTrustBundle", "PodCertificateRequest"))
    usual = {one["metadata"]["name"] for _, one in default_roles(KUBERNETES, structs_of("1.36"))}
    gated = default_roles(KUBERNETES, structs_of("1.36"), gates)
    found = {
        one["metadata"]["name"]: one for type_name, one in gated if type_name.startswith("clusterroles.")
    }
    assert found.keys() - usual == {
        "system:cluster-trust-bundle-discovery",
        "system:controller:kube-apiserver-serving-clustertrustbundle-publisher",
        "system:controller:podcertificaterequestcleaner",
    }
    older = {one["metadata"]["name"] for _, one in default_roles(KUBERNETES, structs_of("1.31"), gates)}
    assert "system:controller:kube-apiserver-serving-clustertrustbundle-publisher" not in older
    resources = [name for rule in found["system:node"].get("rules", ()) for name in rule["resources"]]
    assert {"clustertrustbundles", "podcertificaterequests"} <= set(resources)


async def start(store: Store) -> None:
    bootstrap = Bootstrap(CLUSTER, store.catalog, store.journal, store.directory, store.write_contexts)
    await bootstrap.create_objects(ServiceRanges(), SERVING)


def test_dialects_differ_in_names_only() -> None:
    first = structs_of("1.25")
    assert len(default_roles(CLUSTER, first)) == len(default_roles(KUBERNETES, first)) == 119
    texts = [str(one) for one in default_roles(KUBERNETES, first)]
    assert not any("cluster.io" in text or "cluster-system" in text for text in texts)
    approver = document("clusterroles", "system:certificates.k8s.io:kubelet-serving-approver", KUBERNETES)
    assert approver["rules"][0]["resourceNames"] == ["kubernetes.io/kubelet-serving"]
    assert approver["metadata"]["annotations"] == {"rbac.authorization.kubernetes.io/autoupdate": "true"}
    edit = document("clusterroles", "edit", KUBERNETES)
    assert edit["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-admin"] == "true"


def test_aggregated_roles_have_the_rules_of_their_sources() -> None:
    view, edit, admin = (document("clusterroles", name)["rules"] for name in ("view", "edit", "admin"))
    assert all(rule in edit for rule in view) and all(rule in admin for rule in edit)
    assert len(view) < len(edit) < len(admin)


async def test_a_second_start_writes_nothing() -> None:
    async with open_store() as store:
        await start(store)
        assert store.directory.admission_statistics().started == 0, "no write waits for a check of rights"
        head = store.journal.head
        await start(store)
        assert store.journal.head == head


async def test_unchanged_objects_are_recognized_by_their_bytes() -> None:
    async with open_store() as store:
        await start(store)
        with store.journal.read() as view:
            for type_name, wanted in default_roles(CLUSTER, structs_of("1.25")):
                metadata = wanted["metadata"]
                place = metadata.get("namespace", ""), metadata["name"]
                row = view.get(store.journal.type_id(type_name), *place)
                assert row is not None and is_as_wanted(row.body, wanted), metadata["name"]


@cases(
    ("kind", "name", "path", "value"),
    [
        ("clusterroles", "system:basic-user", "rules", []),
        ("clusterroles", "system:basic-user", "aggregationRule", {"clusterRoleSelectors": []}),
        ("clusterroles", "view", "aggregationRule", None),
        ("clusterrolebindings", "system:discovery", "subjects", []),
        ("clusterrolebindings", "system:discovery", "roleRef", {"kind": "ClusterRole", "name": "other"}),
        ("clusterrolebindings", "system:discovery", "metadata", {"labels": {}, "annotations": {}}),
    ],
)
def test_changed_objects_are_not_as_wanted(kind: str, name: str, path: str, value: Any) -> None:
    wanted = document(kind, name)
    assert is_as_wanted(orjson.dumps(wanted), wanted)
    assert not is_as_wanted(orjson.dumps({**wanted, path: value}), wanted)


async def test_a_start_restores_what_is_missing() -> None:
    async with open_store() as store:
        await start(store)
        await store.delete("clusterroles", "view", namespace="")
        basic = await store.get("clusterroles", "system:basic-user", namespace="")
        basic["rules"] = [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]
        await store.replace("clusterroles", basic, namespace="")
        bound = await store.get("clusterrolebindings", "system:discovery", namespace="")
        bound["subjects"] = [{"kind": "User", "name": "bob"}]
        await store.replace("clusterrolebindings", bound, namespace="")
        await start(store)
        assert (await store.get("clusterroles", "view", namespace=""))["rules"]
        restored = await store.get("clusterroles", "system:basic-user", namespace="")
        assert [rule["resources"] for rule in restored["rules"]] == [
            ["pods"],
            ["selfsubjectaccessreviews"],
            ["selfsubjectrulesreviews"],
        ]
        subjects = (await store.get("clusterrolebindings", "system:discovery", namespace=""))["subjects"]
        assert [one["name"] for one in subjects] == ["bob", "system:authenticated"]


async def test_binding_to_another_role_is_recreated() -> None:
    async with open_store() as store:
        await start(store)
        old = await store.get("clusterrolebindings", "system:discovery", namespace="")
        await store.delete("clusterrolebindings", "system:discovery", namespace="")
        other = {**old, "metadata": {"name": "system:discovery"}}
        other["roleRef"] = {**old["roleRef"], "name": "cluster-admin"}
        await store.create("clusterrolebindings", other, namespace="")
        await start(store)
        restored = await store.get("clusterrolebindings", "system:discovery", namespace="")
        assert restored["roleRef"]["name"] == "system:discovery"


@pytest.mark.parametrize("kind", ["clusterroles", "clusterrolebindings"])
def test_autoupdate_false_leaves_an_object_alone(kind: str) -> None:
    wanted = document(kind, "system:basic-user")
    key = "rbac.authorization.cluster.io/autoupdate"
    changed = {**wanted, "rules": [], "subjects": [], "roleRef": {}}
    protected = {**changed, "metadata": {**wanted["metadata"], "annotations": {key: "false"}}}
    assert reconcile(CLUSTER, protected, wanted) is None
    assert reconcile(CLUSTER, changed, wanted) is not None


def test_labels_and_annotations_of_others_stay() -> None:
    wanted = document("clusterroles", "system:basic-user")
    metadata = {"name": "system:basic-user", "labels": {"mine": "1", "cluster.io/bootstrapping": "no"}}
    found = reconcile(CLUSTER, {**wanted, "metadata": metadata}, wanted)
    assert isinstance(found, Reconciled) and not found.recreate
    assert found.object["metadata"]["labels"] == {"mine": "1", "cluster.io/bootstrapping": "no"}
    assert found.object["metadata"]["annotations"] == wanted["metadata"]["annotations"]


def test_selectors_are_added_and_unexpected_aggregation_is_removed() -> None:
    view, basic = document("clusterroles", "view"), document("clusterroles", "system:basic-user")
    other = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    found = reconcile(CLUSTER, {**view, "aggregationRule": other}, view)
    assert found is not None
    selectors = found.object["aggregationRule"]["clusterRoleSelectors"]
    assert selectors == [*other["clusterRoleSelectors"], *view["aggregationRule"]["clusterRoleSelectors"]]
    found = reconcile(CLUSTER, {**basic, "aggregationRule": other}, basic)
    assert found is not None and "aggregationRule" not in found.object


@pytest.mark.parametrize("names", [CLUSTER, KUBERNETES], ids=["cluster", "kubernetes"])
def test_documents_are_as_if_decoded(names: Any) -> None:
    catalog = built_in(names)
    for type_name, found in default_roles(names, structs_of("1.25")):
        decoded = catalog.storage(type_name).schema.decode_object(found).object
        assert orjson.dumps(decoded) == orjson.dumps(found)


async def test_a_start_leaves_the_documents_unchanged() -> None:
    before = orjson.dumps([found for _, found in default_roles(CLUSTER, structs_of("1.25"))])
    async with open_store() as store:
        await start(store)
    assert orjson.dumps([found for _, found in default_roles(CLUSTER, structs_of("1.25"))]) == before
