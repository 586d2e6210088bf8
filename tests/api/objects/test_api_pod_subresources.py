"""Subresources of a pod: binding and eviction; and the scale of a replication controller."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gateway.api import Api, served
from tests.gateway.shared_server import shared

PODS = "/api/v1/namespaces/default/pods"
DONE = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


async def make(api: Api, **spec: Any) -> None:
    container = {"name": "c", "image": "i"}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [container], **spec}}
    (await api.ask("POST", PODS, pod)).expect(201)


def binding(name: str = "p") -> dict[str, Any]:
    return {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n"}}


@pytest.mark.parametrize("path", [f"{PODS}/p/binding", "/api/v1/namespaces/default/bindings"])
async def test_binding_sets_the_node(path: str) -> None:
    async with served() as api:
        await make(api)
        assert (await api.ask("POST", f"{path}?dryRun=All", binding())).expect(201) == DONE
        assert "nodeName" not in (await api.get("pods", "p"))["spec"]
        assert (await api.ask("POST", path, binding())).expect(201) == DONE
        assert (await api.get("pods", "p"))["spec"]["nodeName"] == "n"
        status = (await api.ask("POST", path, binding())).expect(409)
        assert status["details"] == {"name": "p", "kind": "pods/binding"}


async def test_incomplete_bindings_are_refused() -> None:
    """Whether or not the pod exists."""
    async with shared() as api:
        path = "/api/v1/namespaces/default/bindings"
        for name, why in (("", "Name parameter required."), ("a/b", "may not contain '/'")):
            assert why in (await api.ask("POST", path, binding(name))).expect(400)["message"]
        status = (await api.ask("POST", path, {**binding(), "target": {}})).expect(422)
        assert status["details"]["causes"][0]["field"] == "target.name"
        (await api.ask("GET", path)).expect(405)
        (await api.ask("GET", f"{path}/p")).expect(404)


async def test_bindings_that_fit_no_pod_are_refused() -> None:
    async with served() as api:
        await make(api)
        status = (await api.ask("POST", f"{PODS}/p/binding", binding("q"))).expect(400)
        assert status["message"] == "name in URL does not match name in Binding object"
        (await api.ask("POST", f"{PODS}/q/binding", binding("q"))).expect(404)
        bad = {**binding(), "target": {"kind": "Node"}}
        status = (await api.ask("POST", f"{PODS}/p/binding", bad)).expect(422)
        assert status["message"] == 'Binding "p" is invalid: target.name: Required value'
        (await api.ask("GET", f"{PODS}/p/binding")).expect(405)
        (await api.ask("GET", "/api/v1/namespaces/default/bindings")).expect(405)


def eviction(name: str = "p", **options: Any) -> dict[str, Any]:
    sent = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return {**sent, "deleteOptions": options} if options else sent


async def test_eviction_deletes_the_pod() -> None:
    async with served() as api:
        await make(api)
        path = f"{PODS}/p/eviction"
        assert (await api.ask("POST", f"{path}?dryRun=All", eviction())).expect(201) == DONE
        assert (await api.ask("POST", path, eviction(dryRun=["All"]))).expect(201) == DONE
        await api.get("pods", "p")
        (await api.ask("POST", path, eviction(preconditions={"uid": "x"}))).expect(409)
        (await api.ask("POST", path, eviction("q"))).expect(400)
        (await api.ask("POST", path, {**eviction(), "apiVersion": "policy/v2"})).expect(400)
        old = {**eviction(), "apiVersion": "policy/v1beta1"}
        assert (await api.ask("POST", f"{path}?dryRun=All", old)).expect(201) == DONE
        assert (await api.ask("POST", path, eviction())).expect(201) == DONE
        (await api.ask("GET", f"{PODS}/p")).expect(404)
        (await api.ask("POST", path, eviction())).expect(404)


async def test_subresource_of_no_name_is_not_served() -> None:
    """The name in the body is not the one that was authorized."""
    async with served() as api:
        await make(api)
        (await api.ask("POST", f"{PODS}//eviction", eviction())).expect(404)
        await api.get("pods", "p")


async def test_evicted_pod_on_a_node_has_its_grace_period() -> None:
    async with served() as api:
        await make(api, nodeName="n")
        options = {"gracePeriodSeconds": 7}
        (await api.ask("POST", f"{PODS}/p/eviction", eviction(**options))).expect(201)
        assert (await api.get("pods", "p"))["metadata"]["deletionGracePeriodSeconds"] == 7


async def test_scale_of_a_replication_controller() -> None:
    async with served() as api:
        template = {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
        made = await api.create(
            "replicationcontrollers", {"metadata": {"name": "r"}, "spec": {"template": template}}
        )
        path = "/api/v1/namespaces/default/replicationcontrollers/r/scale"
        returned = (await api.ask("GET", path)).expect(200)
        assert (returned["kind"], returned["apiVersion"]) == ("Scale", "autoscaling/v1")
        assert returned["spec"] == {"replicas": 1} and returned["status"] == {
            "replicas": 0,
            "selector": "a=b",
        }
        returned["spec"]["replicas"] = 3
        set_ = (await api.ask("PUT", path, returned)).expect(200)
        assert set_["spec"] == {"replicas": 3}
        assert set_["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]
        assert (await api.get("replicationcontrollers", "r"))["spec"]["replicas"] == 3
        (await api.ask("PUT", path, returned)).expect(409)
