"""Every operation that the Kubernetes API reference lists for a kind has its path and its responses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import trio

from tests.actors.kinds.documented import VALID
from tests.gateway.api import Api, names, served

MERGE = {"content-type": "application/merge-patch+json"}
ATTACHMENT = {"spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}}}


@dataclass(frozen=True)
class Kind:
    kind: str
    root: str  # of the version
    plural: str
    namespaced: bool = False
    delete_returns_object: bool = False
    has_status: bool = False
    protected: bool = False  # a controller removes its finalizer when nothing uses it

    @property
    def collection(self) -> str:
        return f"{self.root}/namespaces/default/{self.plural}" if self.namespaced else self.everywhere

    @property
    def everywhere(self) -> str:
        return f"{self.root}/{self.plural}"

    def document(self, name: str, **labels: str) -> dict[str, Any]:
        content = ATTACHMENT if self.plural == "volumeattachments" else VALID[self.plural]
        return {"metadata": {"name": name, "labels": labels}, **content}


STORAGE = "/apis/storage.cluster.io/v1"
KINDS = [
    Kind("ClusterRole", "/apis/rbac.authorization.cluster.io/v1", "clusterroles"),
    Kind("StatefulSet", "/apis/apps/v1", "statefulsets", True, has_status=True),
    Kind("ConfigMap", "/api/v1", "configmaps", True),
    Kind("Secret", "/api/v1", "secrets", True),
    Kind("PersistentVolumeClaim", "/api/v1", "persistentvolumeclaims", True, True, True, protected=True),
    Kind("CSIDriver", STORAGE, "csidrivers", delete_returns_object=True),
    Kind("CSINode", STORAGE, "csinodes", delete_returns_object=True),
    Kind("CSIStorageCapacity", STORAGE, "csistoragecapacities", True),
    Kind("VolumeAttachment", STORAGE, "volumeattachments", False, True, True),
    Kind("PodSecurityPolicy", "/apis/policy/v1beta1", "podsecuritypolicies", delete_returns_object=True),
]
each_kind = pytest.mark.parametrize("kind", [pytest.param(one, id=one.kind) for one in KINDS])


async def ask(api: Api, method: str, path: str, body: Any = None, code: int = 200, **query: Any) -> Any:
    headers = MERGE if method == "PATCH" else None
    return (await api.ask(method, path, body, headers=headers, **query)).expect(code)


@each_kind
async def test_documented_operations_are_served(kind: Kind) -> None:
    async with served() as api:
        path = f"{kind.collection}/a"
        made = await ask(api, "POST", kind.collection, kind.document("a", size="small"), 201)
        assert made["kind"] == kind.kind
        await ask(api, "POST", kind.collection, kind.document("b"), 201)
        assert await ask(api, "GET", path) == made
        made["metadata"]["labels"]["size"] = "large"
        assert (await ask(api, "PUT", path, made))["metadata"]["labels"] == {"size": "large"}
        patched = await ask(api, "PATCH", path, {"metadata": {"labels": {"size": "huge"}}})
        assert patched["metadata"]["labels"] == {"size": "huge"}
        for place in {kind.collection, kind.everywhere}:
            listed = await ask(api, "GET", place, labelSelector="size=huge")
            assert (listed["kind"], names(listed)) == (f"{kind.kind}List", ["a"])
            assert listed["metadata"]["resourceVersion"]
        deleted = await ask(api, "DELETE", path)
        assert deleted["kind"] == (kind.kind if kind.delete_returns_object else "Status")
        if kind.protected:
            with trio.fail_after(30):
                while (await api.ask("GET", path)).status != 404:
                    await trio.lowlevel.checkpoint()
        await ask(api, "GET", path, code=404)
        gone = await ask(api, "DELETE", kind.collection)
        assert (gone["kind"], gone["status"]) == ("Status", "Success")


@each_kind
async def test_operations_need_authentication(kind: Kind) -> None:
    async with served(anonymous_auth=False) as api:
        for method, path in (
            ("GET", kind.collection),
            ("POST", kind.collection),
            ("DELETE", kind.collection),
            *((verb, f"{kind.collection}/a") for verb in ("GET", "PUT", "PATCH", "DELETE")),
        ):
            (await api.ask(method, path, token=None)).expect(401)


@pytest.mark.parametrize("kind", [pytest.param(one, id=one.kind) for one in KINDS if one.has_status])
async def test_status_subresource_has_its_path(kind: Kind) -> None:
    async with served() as api:
        await ask(api, "POST", kind.collection, kind.document("a"), 201)
        path = f"{kind.collection}/a/status"
        returned = await ask(api, "GET", path)
        assert (returned["kind"], returned["metadata"]["name"]) == (kind.kind, "a")
        assert (await ask(api, "PUT", path, returned))["kind"] == kind.kind
        await ask(api, "PATCH", path, {})
        await ask(api, "DELETE", path, code=405)


@each_kind
async def test_documented_parameters_of_writes_are_accepted(kind: Kind) -> None:
    async with served() as api:
        document, path = kind.document("a"), f"{kind.collection}/a"
        await ask(api, "POST", kind.collection, document, 201, dryRun="All")
        await ask(api, "GET", path, code=404)
        odd = {**document, "oddity": 1}
        await ask(api, "POST", kind.collection, odd, 400, fieldValidation="Strict")
        made = await ask(
            api, "POST", kind.collection, odd, 201, fieldValidation="Ignore", fieldManager="me", pretty="true"
        )
        if "managedFields" in made["metadata"]:  # an object without fields has no owners
            assert made["metadata"]["managedFields"][0]["manager"] == "me"
        changed = {"metadata": {"annotations": {"a": "b"}}}
        for method, body in (("PUT", {**made, **odd}), ("PATCH", {**changed, "oddity": 1})):
            await ask(api, method, path, body, 400, fieldValidation="Strict")
        dry = await ask(api, "PATCH", path, changed, dryRun="All", fieldManager="me", pretty="false")
        assert dry["metadata"]["annotations"] == {"a": "b"}
        assert await ask(api, "GET", path) == made
        await ask(api, "PATCH", path, changed, 422, force="true")  # only for apply


async def test_documented_parameters_of_policies_are_accepted() -> None:
    """The last kind is the only one whose reference lists every parameter."""
    kind = KINDS[-1]
    async with served() as api:
        for name in ("a", "b", "c"):
            await ask(api, "POST", kind.collection, kind.document(name, size=name), 201)
        page = await ask(api, "GET", kind.collection, limit=2, pretty="true", timeoutSeconds=5)
        version, token = page["metadata"]["resourceVersion"], page["metadata"]["continue"]
        assert names(page) == ["a", "b"]
        assert names(await ask(api, "GET", kind.collection, limit=2, **{"continue": token})) == ["c"]
        exact = {"resourceVersion": version, "resourceVersionMatch": "Exact"}
        assert names(await ask(api, "GET", kind.collection, **exact)) == ["a", "b", "c"]
        plain = {"watch": "false", "allowWatchBookmarks": "true", "resourceVersion": "0"}
        assert names(await ask(api, "GET", kind.collection, **plain)) == ["a", "b", "c"]
        options = {"gracePeriodSeconds": 0, "propagationPolicy": "Background", "pretty": "true"}
        await ask(api, "DELETE", f"{kind.collection}/a", dryRun="All", **options)
        assert len(names(await ask(api, "GET", kind.collection))) == 3
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "other"}}
        await ask(api, "DELETE", f"{kind.collection}/a", body, 409)
        selected = {"labelSelector": "size in (a,b)", "fieldSelector": "metadata.name!=b"}
        await ask(api, "DELETE", kind.collection, dryRun="All", **selected, **options)
        await ask(api, "DELETE", kind.collection, timeoutSeconds=5, **selected, **options)
        assert names(await ask(api, "GET", kind.collection)) == ["b", "c"]
        every = {"limit": 500, "resourceVersion": "0", "resourceVersionMatch": "NotOlderThan"}
        await ask(api, "DELETE", kind.collection, {"kind": "DeleteOptions", "apiVersion": "v1"}, **every)
        assert names(await ask(api, "GET", kind.collection)) == []
