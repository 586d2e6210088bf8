"""Binding: assigns a pod to a node. Only the change to the pod is stored."""

from __future__ import annotations

from actors.errors import Conflict, Resource
from actors.kinds.core.pods.spec import POD_SPEC
from actors.kinds.core.pods.status import POD_STATUS
from actors.kinds.core.references import OBJECT_REFERENCE
from actors.kinds.declaration.definition import Definition, Storage, Strategy, Subresource
from actors.kinds.declaration.meta import METADATA
from actors.kinds.schema.fields import Field, Struct
from actors.kinds.validation import FieldErrors, name_is_subdomain, not_supported, required
from actors.kinds.values.times import seconds_text
from actors.messages import Object
from actors.names import Names
from actors.quoting import quoted_start

BINDING = Struct(
    "core.v1.Binding",
    METADATA,
    Field("target", OBJECT_REFERENCE, 2, required=True),
)
POD_BINDING = Resource("", "pods/binding")


def define(_: Names) -> Definition:
    return Definition(
        group="",
        version="v1",
        kind="Binding",
        plural="bindings",
        namespaced=True,
        check_name=name_is_subdomain,
        fields=BINDING,
        verbs=("create",),
        storage=Storage(submits_to=("pods", "binding")),
        strategy=Strategy(validate_create=rules),
    )


def binding(names: Names) -> Subresource:
    """The subresource that assigns a pod to a node."""
    return Subresource(name="binding", verbs=("create",), kind="Binding", view=define(names), submit=assign)


def rules(errors: FieldErrors, sent: Object) -> None:
    kind = sent["target"].get("kind", "")
    if kind not in ("", "Node"):
        errors.add(not_supported("target.kind", kind, ("Node", "<empty>")))
    if not sent["target"].get("name"):
        errors.add(required("target.name"))


def assign(sent: Object, pod: Object, now: int) -> Object:
    metadata, name = pod["metadata"], pod["metadata"]["name"]
    if "deletionTimestamp" in metadata:
        raise Conflict(POD_BINDING, name, f"pod {name} is being deleted, cannot be assigned to a host")
    node = pod["spec"].get("nodeName")
    if node:
        raise Conflict(POD_BINDING, name, f"pod {name} is already assigned to node {quoted_start(node)}")
    annotations = {**metadata.get("annotations", {}), **sent["metadata"].get("annotations", {})}
    if annotations:
        metadata["annotations"] = dict(sorted(annotations.items()))
    spec = POD_SPEC.arranged({**pod["spec"], "nodeName": sent["target"]["name"]})
    return {**pod, "metadata": metadata, "spec": spec, "status": _scheduled(pod["status"], now)}


def _scheduled(status: Object, now: int) -> Object:
    kind = "PodScheduled"
    conditions = status.get("conditions", [])
    before: Object = next((one for one in conditions if one["type"] == kind), {})
    since = before["lastTransitionTime"] if before.get("status") == "True" else seconds_text(now)
    scheduled = {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": since}
    updated = [scheduled if one is before else one for one in conditions]
    return POD_STATUS.arranged({**status, "conditions": updated if before else [*updated, scheduled]})
