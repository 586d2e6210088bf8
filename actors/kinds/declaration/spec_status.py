"""Steps of strategies for kinds whose spec and status are written at different paths.

Kinds with a status subresource use these functions as they are, or inside preparations of their own. The generation
counts changes of the spec; it starts at one and no client sets it.
"""

from __future__ import annotations

from actors.kinds.declaration.definition import Subresource
from actors.kinds.declaration.strategy import ValidateUpdate
from actors.kinds.schema.fields import Struct, zero_struct
from actors.messages import Object


def reset_status_and_generation(status: Struct, new: Object) -> None:
    """Prepare a new object: the first generation, with an empty status."""
    clear_status(status, new)
    new["metadata"]["generation"] = 1


def clear_status(status: Struct, new: Object) -> None:
    new["status"] = zero_struct(status, defaults=False)


def keep_status(new: Object, old: Object) -> None:
    new["status"] = old["status"]


def keep_spec(new: Object, old: Object) -> None:
    new["spec"] = old["spec"]


def keep_metadata(new: Object, old: Object) -> None:
    """For status updates that change nothing else: keep all metadata that clients can set."""
    metadata, before = new["metadata"], old["metadata"]
    for part in ("labels", "annotations", "finalizers", "ownerReferences"):
        metadata.pop(part, None)
        if part in before:
            metadata[part] = before[part]


def status_subresource(validate: ValidateUpdate) -> Subresource:
    """The path of the status for kinds of which it changes nothing else, neither spec nor metadata."""
    return Subresource(
        name="status",
        prepare=keep_spec_and_metadata,
        validate=validate,
        reset_fields=("spec", "metadata"),
    )


def keep_spec_and_metadata(new: Object, old: Object) -> None:
    keep_spec(new, old)
    keep_metadata(new, old)


def bump_generation(new: Object, old: Object, *parts: str) -> None:
    """Increment the generation when one of the parts has changed; by default the spec."""
    if any(new.get(part) != old.get(part) for part in parts or ("spec",)):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def keep_status_and_bump_generation(new: Object, old: Object) -> None:
    keep_status(new, old)
    bump_generation(new, old)
