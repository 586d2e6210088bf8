"""The CustomResourceDefinitions of the group kwok.x-k8s.io, which a server with simulated nodes creates.

The fields that the server reads have types, all others are preserved. Whoever applies kwok's own definitions replaces
these, and loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rewound.actors.messages import Object
from rewound.actors.names import Names

GROUP, VERSION = "kwok.x-k8s.io", "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
STAGES: Final = f"stages.{GROUP}"  # the type name

_LOG = "set the annotation sim/log of the pod"
_USAGE = "set the annotations sim/cpu and sim/memory of the pod"
# Other kinds of the group, whose definitions are kwok's, and the message of the Event for each: it has no effect here.
WITHOUT_EFFECT: Final = {
    f"{prefix}{plural}.{GROUP}": message
    for plural, message in (
        ("logs", f"files of the server's machine are not served as logs; {_LOG}"),
        ("attaches", f"files of the server's machine are not served; {_LOG}"),
        (
            "execs",
            "the server runs no commands; set the annotations sim/exec and sim/exec-exit-code of the pod",
        ),
        ("portforwards", "nothing listens in a simulated pod, so port-forward is refused"),
        (
            "metrics",
            f"these metrics of nodes are not served; kubectl top shows the usage of pods and nodes: {_USAGE}",
        ),
    )
    for prefix in ("", "cluster")
    if prefix + plural != "clustermetrics"
}


def definitions(names: Names) -> Iterator[Object]:
    preserved = f"{names.extension_prefix}preserve-unknown-fields"

    def fields(**properties: Object) -> Object:
        return {"type": "object", "properties": properties, preserved: True}

    def definition(kind: str, plural: str, scope: str, spec: Object) -> Object:
        status = fields(conditions={"type": "array", "items": fields()})
        version = {
            "name": VERSION,
            "served": True,
            "storage": True,
            "subresources": {"status": {}},
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": spec, "status": status},
                    "required": ["spec"],
                }
            },
        }
        of_kind = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
        return {
            "metadata": {"name": f"{plural}.{GROUP}"},
            "spec": {"group": GROUP, "names": of_kind, "scope": scope, "versions": [version]},
        }

    text, number = {"type": "string"}, {"type": "integer", "format": "int64", "minimum": 0}
    texts = {"type": "object", "additionalProperties": text}
    cel = fields(expression=text)
    source = fields(expressionFrom=text, jq=fields(expression=text), cel=cel)
    requirement: Object = {"key": text, "operator": text, "values": {"type": "array", "items": text}}
    selector = fields(
        matchLabels=texts,
        matchAnnotations=texts,
        matchExpressions={"type": "array", "items": fields(**requirement, jq=fields(**requirement), cel=cel)},
    )
    delay = fields(
        durationMilliseconds=number,
        durationFrom=source,
        jitterDurationMilliseconds=number,
        jitterDurationFrom=source,
    )
    items = {"type": "array", "items": fields(value=text)}
    taken = {
        "event": fields(type=text, reason=text, message=text),
        "finalizers": fields(add=items, remove=items, empty={"type": "boolean"}),
        "delete": {"type": "boolean"},
    }
    user = fields(username=text)
    patch = fields(subresource=text, root=text, template=text, type=text, impersonation=user)
    apply = fields(subresource=text, template=text, type=text, impersonation=user)
    following = fields(
        **taken,
        statusTemplate=text,
        statusSubresource=text,
        statusPatchAs=user,
        patches={"type": "array", "items": patch},
    )
    spec = fields(
        resourceRef={**fields(apiGroup={**text, "default": "v1"}, kind=text), "required": ["kind"]},
        selector=selector,
        weight={**number, "default": 0},
        weightFrom=source,
        delay=delay,
        next=following,
        steps={"type": "array", "items": fields(**taken, patch=patch, apply=apply)},
        immediateNextStage={"type": "boolean"},
    )
    yield definition("Stage", "stages", "Cluster", {**spec, "required": ["resourceRef"]})
