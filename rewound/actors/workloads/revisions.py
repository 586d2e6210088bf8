"""ControllerRevisions: the pod templates that a StatefulSet or DaemonSet has had, numbered in the order of their use.

The data of a revision is a strategic merge patch that restores the template:

    {"spec": {"template": {"$patch": "replace", "metadata": ..., "spec": ...}}}

v1.25 writes it from a Go map, so its keys are sorted. Two revisions are equal if their data have the same bytes. A
StatefulSet names its revisions by a hash of these bytes; a DaemonSet by the hash of the template (`template_hash`). The
bytes must be those of v1.25, because pods and kubectl name revisions by these hashes: a stored template has the fields
that Go's encoder writes, so it is only sorted here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import orjson

from rewound.actors.golang.json import dumps
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import Object
from rewound.actors.patch.strategic import apply_strategic_patch
from rewound.actors.runtime.steps import Steps
from rewound.actors.workloads.pods import copied, owner_reference
from rewound.actors.workloads.template_hash import safe_text

REVISION_LABEL: Final = "controller-revision-hash"  # label of a pod: the revision that it was created from
_LONGEST_PREFIX: Final = 223  # leaves room for a hash in a name of 253 characters
_FNV_START, _FNV_PRIME, _32_BITS = 0x811C9DC5, 0x01000193, 0xFFFFFFFF
_PART: Final = 4096  # bytes, at a tenth of a microsecond each


def snapshot(owner: Object) -> bytes:
    """The data of the revision that has the template of `owner`."""
    template = {**owner["spec"]["template"], "$patch": "replace"}
    return dumps({"spec": {"template": template}}, orjson.OPT_SORT_KEYS)


def holds(revision: Object, data: bytes) -> bool:
    return dumps(revision.get("data")) == data


def snapshot_hash(data: bytes, collisions: int) -> Steps[str]:
    """The FNV-1 hash of the data and the number of collisions with revisions of other data."""
    found = _FNV_START
    data += str(collisions).encode()
    for start in range(0, len(data), _PART):
        for byte in data[start : start + _PART]:
            found = (found * _FNV_PRIME & _32_BITS) ^ byte
        yield
    return safe_text(found)


def revision_name(owner: Object, hashed: str) -> str:
    return f"{owner['metadata']['name'][:_LONGEST_PREFIX]}-{hashed}"


def in_order(revisions: Iterable[Object]) -> list[Object]:
    """The oldest first; ties are broken by creation time, then name."""
    return sorted(
        revisions,
        key=lambda one: (one["revision"], one["metadata"]["creationTimestamp"], one["metadata"]["name"]),
    )


def restored(definition: Definition, owner: Object, revision: Object) -> Object:
    """The owner as it was at a revision."""
    return apply_strategic_patch(copied(owner), revision["data"], definition.fields)


def new_revision(
    definition: Definition, owner: Object, data: bytes, number: int, labels: Object, name: str
) -> Object:
    """A revision of `owner` with `labels` in addition to those of the template."""
    metadata: Object = {
        "name": name,
        "labels": {**(owner["spec"]["template"]["metadata"].get("labels") or {}), **labels},
        "ownerReferences": [owner_reference(definition, owner)],
    }
    if annotations := owner["metadata"].get("annotations"):
        metadata["annotations"] = dict(annotations)
    return {"metadata": metadata, "data": orjson.loads(data), "revision": number}
