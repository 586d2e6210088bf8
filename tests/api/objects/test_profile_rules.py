"""What a server of each profile does, rule by rule, as a client sees it; all use the names of one dialect."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
import trio

from rewound.actors.profile import DOCUMENTS, PROFILES, TABLE, V1_25, choose_rules
from tests.actors.certificates.making_requests import Wanted
from tests.gateway.api import ALICE, Api, names, served
from tests.gateway.shared_server import ServerThread

Probe = Callable[[Api], Awaitable[str]]  # asks a server; returns the value of the rule that it follows
PROBES: dict[str, Probe] = {}
_servers: dict[str, ServerThread] = {}

MERGE = {"content-type": "application/merge-patch+json"}
APPLY = {"content-type": "application/apply-patch+yaml"}
LABELS = {"app": "web"}
CONTAINER = {"name": "c", "image": "i"}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": {"containers": [CONTAINER]}}


@asynccontextmanager
async def server_of(profile: str) -> AsyncIterator[Api]:
    """One server of each profile for all tests here, in the dialect `cluster`."""
    if profile not in _servers:
        _servers[profile] = ServerThread(profile=profile, enable_admission_plugins="")
    async with _servers[profile].connected() as api:
        yield api


def probe(of: Probe) -> Probe:
    PROBES[of.__name__.replace("_", "-")] = of
    return of


def choice(name: str, *, documents: bool) -> str:
    """The value of a rule, by what was observed."""
    rule = next(one for one in TABLE if one.name == name)
    return rule.documents.word if documents else rule.v1_25.word


@probe
async def service_name(api: Api) -> str:
    body = {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}}
    response = await api.ask("POST", api.path("statefulsets"), body, dryRun="All")
    if response.status == 201:
        assert response.document["spec"]["serviceName"] == ""
        return "optional"
    assert response.expect(422)["details"]["causes"][0]["field"] == "spec.serviceName"
    return "required"


@probe
async def default_cpu(api: Api) -> str:
    body = {"metadata": {"name": "p"}, "spec": {"containers": [CONTAINER]}}
    made = (await api.ask("POST", api.path("pods"), body, dryRun="All")).expect(201)
    return str(made["spec"]["containers"][0]["resources"].get("requests", {}).get("cpu", "none"))


@probe
async def pod_security_policy(api: Api) -> str:
    found = (await api.ask("GET", "/apis/policy")).expect(200)
    served_versions = [one["version"] for one in found["versions"]]
    status = (await api.ask("GET", "/apis/policy/v1beta1/podsecuritypolicies")).status
    assert (status == 200) == ("v1beta1" in served_versions)
    return "served" if status == 200 else "removed"


@probe
async def health(api: Api) -> str:
    lines = (await api.ask("GET", "/readyz?verbose")).text.splitlines()
    if lines[-1] == "healthz check passed":
        assert "[+]journal ok" in lines
        return "rewound"
    assert lines[-1] == "readyz check passed" and "[+]etcd ok" in lines
    return "kubernetes"


@probe
async def item_watch(api: Api) -> str:
    path = api.path("namespaces", None, "default")
    response = await api.ask("GET", path, watch="1", timeoutSeconds="1")
    if response.document.get("type") == "ADDED":
        return "stream"
    assert response.expect(200)["kind"] == "Namespace"
    return "ignored"


@probe
async def bookmark(api: Api) -> str:
    last = await last_event(api, api.path("pods", "cluster-public"))
    assert last["type"] == "BOOKMARK"
    version = last["object"]["metadata"].pop("resourceVersion")
    assert int(version)
    assert (last["object"].pop("kind"), last["object"].pop("apiVersion")) == ("Pod", "v1")
    if last["object"] == {"metadata": {}}:
        return "version"
    empty = {"metadata": {"creationTimestamp": None}, "spec": {"containers": None}, "status": {}}
    assert last["object"] == empty
    accept = "application/json;as=PartialObjectMetadata;g=meta.cluster.io;v=v1"
    await register(api)
    boats = "/apis/example.com/v1/boats"
    for path in (api.path("pods", "cluster-public"), boats):
        partial = (await last_event(api, path, accept))["object"]
        assert {**partial["metadata"], "resourceVersion": ""} == {
            "resourceVersion": "",
            "creationTimestamp": None,
        }
    assert set((await last_event(api, boats))["object"]["metadata"]) == {"resourceVersion"}
    return "zero-values"


async def last_event(api: Api, path: str, accept: str = "application/json") -> Any:
    query = {"watch": "1", "allowWatchBookmarks": "1", "timeoutSeconds": "1"}
    response = await api.ask("GET", path, headers={"accept": accept}, **query)
    return orjson.loads(response.body.splitlines()[-1])


@probe
async def zero_version_limit(api: Api) -> str:
    found = await api.list("clusterroles", None, resourceVersion="0", limit="2")
    assert ("continue" in found["metadata"]) == (len(found["items"]) == 2)
    assert len((await api.list("clusterroles", None, limit="2"))["items"]) == 2
    return "paged" if len(found["items"]) == 2 else "whole"


@probe
async def last_page(api: Api) -> str:
    for name in ("page-a", "page-b", "page-c"):
        labels = {"page": "yes"} if name != "page-c" else {}
        await api.create("configmaps", {"metadata": {"name": name, "labels": labels}})
    selected: dict[str, Any] = {"labelSelector": "page=yes", "limit": "1"}
    first = await api.list("configmaps", **selected)
    second = await api.list("configmaps", **{**selected, "continue": first["metadata"]["continue"]})
    assert names(first) + names(second) == ["page-a", "page-b"]
    token = second["metadata"].get("continue")
    if token is None:
        return "matching"
    assert "remainingItemCount" not in second["metadata"]
    last = await api.list("configmaps", **{**selected, "continue": token})
    assert not last["items"] and "continue" not in last["metadata"]
    whole = await api.list("configmaps", limit="100")
    assert "continue" not in whole["metadata"]
    return "unread"


@probe
async def reset_owner(api: Api) -> str:
    await api.create("configmaps", {"metadata": {"name": "reset"}, "data": {"a": "1"}})
    body = {"metadata": {"managedFields": [{}]}, "data": {"b": "2"}}
    merge = {"content-type": "application/merge-patch+json"}
    changed = (await api.ask("PATCH", api.path("configmaps", name="reset"), body, headers=merge)).expect(200)
    owned = [one["fieldsV1"] for one in changed["metadata"].get("managedFields", [])]
    if not owned:
        return "nobody"
    assert owned == [{"f:data": {"f:b": {}}}]
    return "writer"


@probe
async def empty_owner_list(api: Api) -> str:
    await api.create("configmaps", {"metadata": {"name": "emptied"}, "data": {"a": "1"}})
    path, empty = api.path("configmaps", name="emptied"), {"metadata": {"managedFields": []}}
    absent = {"metadata": {"managedFields": None}}
    kept = (await api.ask("PATCH", path, absent, headers=MERGE)).expect(200)
    assert len(kept["metadata"]["managedFields"]) == 1
    patched = (await api.ask("PATCH", path, empty, headers=MERGE)).expect(200)
    body = {"metadata": {"name": "emptied", "managedFields": []}, "data": {"a": "2"}}
    written = (await api.ask("PUT", path, body)).expect(200)
    assert ("managedFields" in patched["metadata"]) == ("managedFields" in written["metadata"])
    return "ignored" if "managedFields" in patched["metadata"] else "reset"


@probe
async def scale_owner(api: Api) -> str:
    spec = {"selector": {"matchLabels": LABELS}, "template": TEMPLATE, "replicas": 1}
    await api.create("replicasets", {"metadata": {"name": "scaled"}, "spec": spec})
    path = api.path("replicasets", name="scaled")

    async def owners() -> list[tuple[str, str, bool]]:
        """The owners of the replicas: manager, operation, and whether through the scale subresource."""
        entries = (await api.get("replicasets", "scaled"))["metadata"]["managedFields"]
        return [
            (one["manager"], one["operation"], one.get("subresource") == "scale")
            for one in entries
            if "f:replicas" in one["fieldsV1"]["f:spec"]
        ]

    (creator,) = await owners()
    scale, number = f"{path}/scale", {"spec": {"replicas": 1}}
    (await api.ask("PATCH", scale, number, headers=MERGE, fieldManager="hand")).expect(200)
    assert await owners() == [creator]  # the number is as before
    number = {"spec": {"replicas": 3}}
    (await api.ask("PATCH", scale, number, headers=MERGE, fieldManager="hand")).expect(200)
    if await owners() == [creator]:
        return "nobody"
    assert await owners() == [("hand", "Update", True)]
    config: Any = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "scaled"}}
    same, other = {**config, "spec": {"replicas": 3}}, {**config, "spec": {"replicas": 4}}
    (await api.ask("PATCH", scale, same, headers=APPLY, fieldManager="tool")).expect(200)
    assert await owners() == [("tool", "Apply", True), ("hand", "Update", True)]
    conflict = await api.ask("PATCH", scale, other, headers=APPLY, fieldManager="tool")
    assert conflict.expect(409)["details"]["causes"] == [
        {
            "field": ".spec.replicas",
            "message": 'conflict with "hand" with subresource "scale" using autoscaling/v1',
            "reason": "FieldManagerConflict",
        }
    ]
    (await api.ask("PATCH", scale, other, headers=APPLY, fieldManager="tool", force="true")).expect(200)
    assert await owners() == [("tool", "Apply", True)]
    replica_set: Any = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "scaled"}}
    whole = {**replica_set, "spec": {"replicas": 9}}
    conflict = await api.ask("PATCH", path, whole, headers=APPLY, fieldManager="other")
    cause = conflict.expect(409)["details"]["causes"][0]
    assert cause["message"] == 'conflict with "tool" with subresource "scale"'
    return "writer"


@probe
async def empty_metadata_list(api: Api) -> str:
    accept = {"accept": "application/json;as=PartialObjectMetadataList;g=meta.cluster.io;v=v1"}
    found = (await api.ask("GET", api.path("pods", "cluster-public"), headers=accept)).expect(200)
    full = (await api.ask("GET", api.path("namespaces", None), headers=accept)).expect(200)
    assert full["items"]
    return "null" if found["items"] is None else "empty"


@probe
async def held_delete(api: Api) -> str:
    held = {"metadata": {"name": "held", "finalizers": ["example.com/a"]}}
    await api.create("configmaps", held)
    deleted = await api.delete("configmaps", "held")
    free = {"content-type": "application/merge-patch+json"}
    path = api.path("configmaps", name="held")
    (await api.ask("PATCH", path, {"metadata": {"finalizers": None}}, headers=free)).expect(200)
    await api.create("configmaps", {"metadata": {"name": "free"}})
    assert (await api.delete("configmaps", "free"))["kind"] == "Status"
    if deleted["kind"] == "Status":
        return "by-kind"
    assert deleted["kind"] == "ConfigMap" and deleted["metadata"]["deletionTimestamp"]
    return "object"


@probe
async def collection_delete(api: Api) -> str:
    for name in ("a", "b", "c"):
        await api.create("secrets", {"metadata": {"name": name, "labels": LABELS}})
    path = api.path("secrets")
    found = (await api.ask("DELETE", path, labelSelector="app=web", limit="2")).expect(200)
    token = found["metadata"]["continue"]
    rest = (await api.ask("DELETE", path, **{"labelSelector": "app=web", "continue": token})).expect(200)
    assert not (await api.list("secrets", labelSelector="app=web"))["items"]
    if found["kind"] == "Status":
        return "status"
    assert (found["kind"], names(found), names(rest)) == ("SecretList", ["a", "b"], ["c"])
    return "list"


@probe
async def unknown_and_invalid(api: Api) -> str:
    body = {"metadata": {"name": "NO"}, "oddity": 1}
    response = await api.ask("POST", api.path("configmaps"), body)
    if response.status == 422:
        assert response.warnings == ['299 - "unknown field \\"oddity\\""']
        assert "oddity" not in response.text
    spec = {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}
    await api.create("replicasets", {"metadata": {"name": "odd"}, "spec": spec})
    patch, path = {"spec": {"oddity": 1, "replicas": -1}}, api.path("replicasets", name="odd")
    for kind in ("merge-patch+json", "strategic-merge-patch+json"):
        for at in (path, f"{path}/scale"):
            patched = await api.ask("PATCH", at, patch, headers={"content-type": f"application/{kind}"})
            assert patched.status == response.status
            if patched.status == 422:
                assert patched.warnings == ['299 - "unknown field \\"spec.oddity\\""']
                assert "oddity" not in patched.text
    return str(response.status)


@probe
async def apply_unknown_fields(api: Api) -> str:
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "applied", "oddity": 1},
        "data": {"k": "v"},
        "dat": {},
    }
    path, statuses = api.path("configmaps", name="applied"), set()
    for mode in ("Warn", "Ignore"):
        response = await api.ask(
            "PATCH", path, config, headers=APPLY, fieldManager="m", fieldValidation=mode, dryRun="All"
        )
        statuses.add(response.status)
        if response.status == 500:
            assert response.document["message"] == (
                "failed to create typed patch object (/applied; /v1, Kind=ConfigMap): errors:\n"
                "  .metadata.oddity: field not declared in schema\n  .dat: field not declared in schema"
            )
        else:
            named = " ".join(response.warnings)
            assert ("dat" in named and "metadata.oddity" in named) == (mode == "Warn")
    strict = await api.ask("PATCH", path, config, headers=APPLY, fieldManager="m", fieldValidation="Strict")
    assert strict.status in (400, 500)
    (status,) = statuses
    return choice("apply-unknown-fields", documents=status == 201)


@probe
async def sent_generation(api: Api) -> str:
    made = await api.create("configmaps", {"metadata": {"name": "generations", "generation": 7}})
    spec = {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}
    await api.create("replicasets", {"metadata": {"name": "generations", "generation": 7}, "spec": spec})
    counted = await api.get("replicasets", "generations")
    assert counted["metadata"]["generation"] == 1
    return "kept" if made["metadata"].get("generation") == 7 else "ignored"


@probe
async def ill_typed_apply(api: Api) -> str:
    path, config = api.path("configmaps", name="applied"), {"apiVersion": "v1", "kind": "ConfigMap"}
    statuses = set()
    for data in ({"data": {"a": 5}}, {"binaryData": {"a": "!"}}):
        refused = await api.ask("PATCH", path, {**config, **data}, headers=APPLY, fieldManager="m")
        statuses.add(refused.status)
        if refused.status == 500:
            assert refused.document["message"].startswith("failed to ")
    (status,) = statuses
    return str(status)


@probe
async def nested_schemas(api: Api) -> str:
    items = {"type": "array", "items": {"type": "string", "bogus": 1}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"l": items}}}
    group, names = "nested.example.com", {"plural": "nests", "kind": "Nest"}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    spec = {"group": group, "scope": "Cluster", "names": names, "versions": [version]}
    made = await api.ask(
        "POST",
        api.path("customresourcedefinitions", None),
        {"metadata": {"name": f"nests.{group}"}, "spec": spec},
        fieldValidation="Strict",
        dryRun="All",
    )
    return {400: "checked", 201: "ignored"}[made.status]


@probe
async def strict_patch(api: Api) -> str:
    set_ = {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}
    await api.create("replicasets", {"metadata": {"name": "strict"}, "spec": set_})
    namespace, scale = (
        api.path("namespaces", None, "default"),
        api.path("replicasets", name="strict") + "/scale",
    )
    body = {"spec": {"oddity": 1}}
    statuses = set()
    for path, kind in (
        (namespace, "merge-patch+json"),
        (namespace, "strategic-merge-patch+json"),
        (scale, "merge-patch+json"),
    ):
        headers = {"content-type": f"application/{kind}"}
        response = await api.ask("PATCH", path, body, headers=headers, fieldValidation="Strict")
        statuses.add(response.status)
        assert 'strict decoding error: unknown field \\"spec.oddity\\"' in response.text
        if response.status == 422:
            assert response.document["details"]["causes"][0]["field"] == "patch"
    (status,) = statuses
    return str(status)


@probe
async def bare_dry_run(api: Api) -> str:
    body = {"metadata": {"name": "dry"}}
    made = await api.ask("POST", api.path("configmaps") + "?dryRun", body)
    removed = await api.ask("DELETE", api.path("configmaps", name="dry") + "?dryRun")
    if made.status == 201:
        removed.expect(200)
        (await api.ask("GET", api.path("configmaps", name="dry"))).expect(404)
        return "write"
    for refused in (made, removed):
        cause = refused.expect(422)["details"]["causes"][0]
        assert cause["message"] == 'Unsupported value: []string{""}: supported values: "All"'
    return "refused"


@probe
async def delete_dry_run(api: Api) -> str:
    await api.create("configmaps", {"metadata": {"name": "tried"}})
    path = api.path("configmaps", name="tried")
    for body in ({}, {"kind": "DeleteOptions", "apiVersion": "v1"}, {"dryRun": []}):
        (await api.ask("DELETE", path, body, dryRun="All")).expect(200)
        if (await api.ask("GET", path)).status == 404:
            return "body"
    (await api.ask("DELETE", path)).expect(200)
    return "query-or-body"


@probe
async def dry_run_node_ports(api: Api) -> str:
    found = set()
    for more in (
        {"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]},
        {
            "type": "LoadBalancer",
            "externalTrafficPolicy": "Local",
            "healthCheckNodePort": 99,
            "ports": [{"port": 1}],
        },
    ):
        body = {"metadata": {"name": "s"}, "spec": more}
        found.add((await api.ask("POST", api.path("services"), body, dryRun="All")).status)
        (await api.ask("POST", api.path("services"), body)).expect(422)
    (status,) = found
    return {201: "unchecked", 422: "checked"}[status]


@probe
async def custom_columns(api: Api) -> str:
    await register(api)
    accept = {"accept": "application/json;as=Table;g=meta.cluster.io;v=v1"}
    table = (await api.ask("GET", "/apis/example.com/v1/boats", headers=accept)).expect(200)
    columns = [(one["name"], one["type"]) for one in table["columnDefinitions"]]
    assert columns[0] == ("Name", "string") and columns[1][1] == "date"
    return columns[1][0].lower().replace(" ", "-")


async def register(api: Api) -> None:
    """The custom kind Boat, served."""
    if (await api.ask("GET", "/apis/example.com/v1/boats")).status == 200:
        return
    schema = {"type": "object", "x-cluster-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    kind = {"plural": "boats", "kind": "Boat"}
    spec = {"group": "example.com", "scope": "Cluster", "names": kind, "versions": [version]}
    await api.create("customresourcedefinitions", {"metadata": {"name": "boats.example.com"}, "spec": spec})
    with trio.fail_after(30):
        while (await api.ask("GET", "/apis/example.com/v1/boats")).status != 200:
            await trio.lowlevel.checkpoint()


@probe
async def account_impersonation(api: Api) -> str:
    group = "rbac.authorization.cluster.io"
    rule = {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"]}
    await api.create("roles", {"metadata": {"name": "act"}, "rules": [rule]})
    subject = {"kind": "User", "apiGroup": group, "name": "alice"}
    ref = {"apiGroup": group, "kind": "Role", "name": "act"}
    await api.create("rolebindings", {"metadata": {"name": "act"}, "roleRef": ref, "subjects": [subject]})

    async def acts_in(namespace: str) -> bool:
        headers = {"impersonate-user": f"system:serviceaccount:{namespace}:default"}
        return (await api.ask("GET", "/version", token=ALICE, headers=headers)).status == 200

    assert not await acts_in("cluster-public")
    return "namespace" if await acts_in("default") else "cluster"


@probe
async def denial_right(api: Api) -> str:
    requests, group = "certificatesigningrequests", "rbac.authorization.cluster.io"
    rule = {
        "apiGroups": ["certificates.cluster.io"],
        "resources": [f"{requests}/approval"],
        "verbs": ["update", "patch"],
    }
    await api.create("clusterroles", {"metadata": {"name": "decide"}, "rules": [rule]})
    subject = {"kind": "User", "apiGroup": group, "name": "alice"}
    ref = {"apiGroup": group, "kind": "ClusterRole", "name": "decide"}
    binding = {"metadata": {"name": "decide"}, "roleRef": ref, "subjects": [subject]}
    await api.create("clusterrolebindings", binding)
    content = Wanted((("CN", "alice"),)).encoded()
    spec = {"request": content, "signerName": "example.com/one", "usages": ["client auth"]}
    await api.create(requests, {"metadata": {"name": "r"}, "spec": spec})
    path = api.path(requests, None, "r") + "/approval"

    async def decide(kind: str) -> int:
        status = {"conditions": [{"type": kind, "status": "True", "reason": "Because"}]}
        merge = {"content-type": "application/merge-patch+json"}
        return (await api.ask("PATCH", path, {"status": status}, token=ALICE, headers=merge)).status

    assert await decide("Approved") == 403
    return {200: "update", 403: "approve"}[await decide("Denied")]


@probe
async def error_texts(api: Api) -> str:
    path = api.path("configmaps")
    await api.ask("POST", path, {"metadata": {"name": "texts"}})
    sent = {"metadata": {"name": "texts", "resourceVersion": "x"}}
    response = await api.ask("PUT", f"{path}/texts", sent)
    assert await _refusals_of_strategic_patches(api) in ((400, 422, 400), (400, 500, 500))
    return {400: "explained", 500: "kubernetes"}[response.status]


async def _refusals_of_strategic_patches(api: Api) -> tuple[int, ...]:
    await api.create("services", {"metadata": {"name": "texts"}, "spec": {"ports": [{"port": 80}]}})
    strategic = {"content-type": "application/strategic-merge-patch+json"}
    path = api.path("services", name="texts")
    found = []
    for spec in ({"$retainKeys": "name"}, {"ports": [{"name": "a"}]}, {"$patch": "explode"}):
        response = await api.ask("PATCH", path, {"spec": spec}, headers=strategic)
        found.append(response.status)
    return tuple(found)


@probe
async def url_wildcards(api: Api) -> str:
    rules = [{"verbs": ["get"], "nonResourceURLs": ["/metric*"]}]
    response = await api.ask(
        "POST", api.path("clusterroles", None), {"metadata": {"name": "m"}, "rules": rules}
    )
    return {201: "anywhere", 422: "final-step"}[response.status]


SEEN_BELOW_HTTP = {
    "certificate-subjects": "tests/api/access/test_certificate_subjects.py",
    "cluster-info-key": "tests/actors/controllers/test_cluster_info_signatures.py",
    "node-usages": "tests/actors/certificates/test_signer_rules.py",
    "oidc-groups": "tests/actors/access/authentication/test_oidc_claims.py",
    "root-certificate": "tests/cli/test_cli_controllers.py",
    "unfit-requests": "tests/actors/controllers/test_certificate_signing.py",
    "unissued-requests": "tests/actors/controllers/test_certificate_cleaning.py",
    "watch-history": "tests/api/lists/test_api_expired_versions.py",
}


@pytest.mark.parametrize("profile", PROFILES)
async def test_server_follows_every_rule_of_its_profile(profile: str) -> None:
    expected = choose_rules("cluster", profile)
    async with server_of(profile) as api:
        seen = {name: await ask(api) for name, ask in PROBES.items()}
    assert seen == {name: getattr(expected, name.replace("-", "_")) for name in PROBES}


def test_every_rule_has_a_test() -> None:
    assert {one.name for one in TABLE} == {*PROBES, *SEEN_BELOW_HTTP}


async def removed(api: Api, claim: str) -> None:
    path = api.path("persistentvolumeclaims", name=claim)
    with trio.fail_after(30):
        while (await api.ask("GET", path)).status != 404:
            await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("profile", PROFILES)
async def test_claims_in_use_are_protected_in_every_profile(profile: str) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    pod = {"nodeName": "n", "containers": [CONTAINER], "volumes": [volume]}
    async with server_of(profile) as api:
        for name in ("data", "unused"):
            await api.create("persistentvolumeclaims", {"metadata": {"name": name}, "spec": spec})
        await api.create("pods", {"metadata": {"name": "user"}, "spec": pod})
        for name in ("data", "unused"):
            await api.delete("persistentvolumeclaims", name)
        await removed(api, "unused")  # after the controller has seen the other one
        assert "deletionTimestamp" in (await api.get("persistentvolumeclaims", "data"))["metadata"]
        await api.delete("pods", "user", gracePeriodSeconds=0)
        await removed(api, "data")


async def test_body_of_a_delete_hides_the_query_by_choice() -> None:
    async with served(rule="delete-dry-run=body") as api:
        assert await delete_dry_run(api) == "body"


async def test_one_rule_set_by_name_leaves_the_others() -> None:
    changed: dict[str, Any] = {"profile": V1_25, "rule": "health=rewound"}
    async with served(**changed) as api:
        assert await health(api) == "rewound"
        assert await service_name(api) == "optional"


async def test_dialect_chooses_the_profile() -> None:
    async with served(dialect="kubernetes", kubernetes_version="1.25") as api:
        assert await service_name(api) == "optional"
        assert await pod_security_policy(api) == "removed"
    async with served(dialect="kubernetes", kubernetes_version="1.25", profile=DOCUMENTS) as api:
        assert await service_name(api) == "required"
        assert await pod_security_policy(api) == "served"
