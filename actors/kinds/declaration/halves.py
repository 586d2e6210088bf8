"""The two halves of an object: what is wanted (spec) and what was found (status), each with a path of its own.

Kinds with a status subresource use these as they are, or inside preparations of their own. The generation counts
changes of what is wanted; it starts at one and no client sets it.
"""

from __future__ import annotations

from actors.kinds.schema.fields import Struct, zero_struct
from actors.messages import Object


def start(status: Struct, new: Object) -> None:
    """A new object: of the first generation, with nothing found yet."""
    drop_status(status, new)
    new["metadata"]["generation"] = 1


def drop_status(status: Struct, new: Object) -> None:
    new["status"] = zero_struct(status, defaults=False)


def keep_status(new: Object, old: Object) -> None:
    new["status"] = old["status"]


def keep_spec(new: Object, old: Object) -> None:
    new["spec"] = old["spec"]


def keep_metadata(new: Object, old: Object) -> None:
    """For statuses that change nothing else: what a client may set of the metadata stays as it is."""
    metadata, before = new["metadata"], old["metadata"]
    for part in ("labels", "annotations", "finalizers", "ownerReferences"):
        metadata.pop(part, None)
        if part in before:
            metadata[part] = before[part]


def count(new: Object, old: Object, *parts: str) -> None:
    """One generation more when one of the parts has changed; without any named, the spec."""
    if any(new.get(part) != old.get(part) for part in parts or ("spec",)):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def keep_status_and_count(new: Object, old: Object) -> None:
    keep_status(new, old)
    count(new, old)
