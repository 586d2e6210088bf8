"""Between client-side and server-side apply: the annotation in which clients keep what they applied last.

A client that moves to server-side apply under its usual name does not conflict over what that annotation holds and
the live object still has: it was its own all along. And the annotation is kept current, so that the client can go back.
"""

from __future__ import annotations

from typing import Final

import orjson

from actors.kinds.declaration.meta import MOST_ANNOTATION_BYTES
from actors.kinds.schema.decoder import NotDecodable
from actors.messages import Object
from actors.patch.managed_fields.claims import NotClaimable, claimed
from actors.patch.managed_fields.comparison import compare
from actors.patch.managed_fields.field_set import Fields, difference
from actors.patch.managed_fields.field_view import Door

USUAL_MANAGER: Final = "kubectl"  # what clients of that kind are called by default, in both dialects


def allowed(door: Door, live: Object, annotation: str) -> Fields:
    """Fields over which such a client has no conflicts. What was recorded in another version allows nothing."""
    try:
        recorded = orjson.loads(live["metadata"].get("annotations", {}).get(annotation, "{}"))
        if not (isinstance(recorded, dict) and recorded.get("apiVersion") and recorded.get("kind")):
            return {}
        config = door.schema.decode_object(recorded, defaults=False).object
        fields = claimed(door.shape, config)
    except (orjson.JSONDecodeError, NotDecodable, NotClaimable):
        return {}
    differing = compare(door.shape, config, live)
    return difference(difference(fields, differing.changed), differing.removed)


def kept_current(metadata: Object, config: Object, annotation: str) -> None:
    """Put what was applied into the annotation, where there is one. Too large for that, it goes."""
    annotations = metadata.get("annotations", {})
    if not annotations.get(annotation):
        return
    current = {**annotations, annotation: _text(config, annotation)}
    if sum(len(key.encode()) + len(value.encode()) for key, value in current.items()) > MOST_ANNOTATION_BYTES:
        del current[annotation]
    metadata["annotations"] = current


def _text(config: Object, annotation: str) -> str:
    metadata = dict(config.get("metadata") or {})
    if annotation in (metadata.get("annotations") or {}):
        metadata["annotations"] = {k: v for k, v in metadata["annotations"].items() if k != annotation}
    whole = {**config, "metadata": metadata}
    text = orjson.dumps(whole, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE).decode()
    return text.translate(_ESCAPES)


# Clients of that kind write these so; the texts are compared as texts.
_ESCAPES: Final = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}
