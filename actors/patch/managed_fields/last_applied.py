"""Migration from client-side to server-side apply: the annotation in which clients keep what they applied last.

A client that changes to server-side apply under its usual manager name has no conflicts over fields that the annotation
contains and the live object still has. Its applies keep the annotation current, so that the client can change back.
"""

from __future__ import annotations

from typing import Final

import orjson

from actors.go_json import dumps
from actors.kinds.declaration.meta import MAX_ANNOTATION_BYTES
from actors.kinds.schema.decoder import NotDecodable
from actors.messages import Object
from actors.patch.managed_fields.applied_fields import AmbiguousItems, applied_fields
from actors.patch.managed_fields.comparison import compare
from actors.patch.managed_fields.field_set import Fields, difference
from actors.patch.managed_fields.field_view import FieldView

USUAL_MANAGER: Final = "kubectl"  # the default manager name of such clients, in both dialects


def previously_applied(view: FieldView, live: Object, annotation: str) -> Fields:
    """Fields over which such a client has no conflicts; none when the annotation is of another version."""
    try:
        recorded = orjson.loads(live["metadata"].get("annotations", {}).get(annotation, "{}"))
        if not (isinstance(recorded, dict) and recorded.get("apiVersion") and recorded.get("kind")):
            return {}
        config = view.schema.decode_object(recorded, defaults=False).object
        fields = applied_fields(view.shape, config)
    except (orjson.JSONDecodeError, NotDecodable, AmbiguousItems):
        return {}
    differing = compare(view.shape, config, live)
    return difference(difference(fields, differing.changed), differing.removed)


def refresh_annotation(metadata: Object, config: Object, annotation: str) -> None:
    """Write the applied configuration into the annotation if it exists; remove it when it is too large."""
    annotations = metadata.get("annotations", {})
    if not annotations.get(annotation):
        return
    current = {**annotations, annotation: _text(config, annotation)}
    if sum(len(key.encode()) + len(value.encode()) for key, value in current.items()) > MAX_ANNOTATION_BYTES:
        del current[annotation]
    metadata["annotations"] = current


def _text(config: Object, annotation: str) -> str:
    metadata = dict(config.get("metadata") or {})
    if annotation in (metadata.get("annotations") or {}):
        metadata["annotations"] = {k: v for k, v in metadata["annotations"].items() if k != annotation}
    whole = {**config, "metadata": metadata}
    text = dumps(whole, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE).decode()
    return text.translate(_ESCAPES)


# Such clients escape these characters, and they compare the annotation as text.
_ESCAPES: Final = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}
