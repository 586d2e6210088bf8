"""Masks the values of Secrets: commands print them only with --show-secrets.

Values of `data` and `stringData` become `***`, and so do annotations that may hold them, because `kubectl apply` and
other tools keep the whole manifest in one. Two versions are masked together, so that a comparison still shows which
values changed.
"""

from __future__ import annotations

from typing import Any

import orjson

from gateway.cli.journal.query.kinds import Kinds
from gateway.record.secret_annotations import annotations_with_values

TYPE_NAME = "secrets"
MASK, MASK_BEFORE, MASK_AFTER = "***", "*** (before)", "*** (after)"
_VALUES = ("data", "stringData")

Document = dict[str, Any]


class Masking:
    """Which types of a journal are masked: none with `show_secrets`."""

    def __init__(self, kinds: Kinds, *, show_secrets: bool) -> None:
        self._kinds, self._show_secrets = kinds, show_secrets

    def applies(self, type_id: int) -> bool:
        return not self._show_secrets and self._kinds.of_type_id(type_id).type_name == TYPE_NAME


def masked(body: bytes) -> bytes:
    """A stored Secret without its values."""
    document: Document = orjson.loads(body)
    for values, names in _values(document):
        values.update(dict.fromkeys(names, MASK))
    return orjson.dumps(document)


def masked_pair(before: Document, after: Document) -> tuple[Document, Document]:
    """Two versions of a Secret without their values: changed ones differ in the mask."""
    earlier, later = _copied_values(before), _copied_values(after)
    for own, other, mask in ((before, later, MASK_BEFORE), (after, earlier, MASK_AFTER)):
        for number, (values, names) in enumerate(_values(own)):
            for name in names:
                changed = name in other[number] and other[number][name] != values[name]
                values[name] = mask if changed else MASK
    return before, after


def _copied_values(document: Document) -> list[Document]:
    return [dict(values) for values, _ in _values(document)]


def _values(document: Document) -> list[tuple[Document, list[str]]]:
    """The maps of a Secret that have secret values, and the names of these."""
    found = [_map(document, field) for field in _VALUES]
    annotations = _map(document.get("metadata") or {}, "annotations")
    return [*((values, list(values)) for values in found), (annotations, annotations_with_values(document))]


def _map(document: Document, field: str) -> Document:
    value = document.get(field)
    return value if isinstance(value, dict) else {}
