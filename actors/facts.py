"""Facts: the few things about an object that selectors and the garbage collector ask, beside its JSON bytes.

The resource actor packs them when it writes, the journal stores them unread, and a list filters by them
without parsing a single object. `fields` holds every selectable field of the kind, metadata.name and
metadata.namespace among them; a field that is missing counts as the empty string.

Layout: one msgpack array [labels, fields, uid, owners]. A later layout may add items at the end and must
leave these four where they are, because journals live longer than releases. Keys and values stand side by
side in a msgpack map, which is what lets `selectors.matcher` rule most objects out by a search for bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgpack


@dataclass(frozen=True, slots=True)
class Facts:
    labels: dict[str, str]
    fields: dict[str, str]
    uid: str
    owners: tuple[str, ...]  # uids of the objects in metadata.ownerReferences


def pack_facts(
    labels: Mapping[str, str], fields: Mapping[str, str], uid: str, owners: Sequence[str]
) -> bytes:
    packed: bytes = msgpack.packb((labels, fields, uid, owners))
    return packed


def unpack_facts(packed: bytes) -> Facts:
    labels, fields, uid, owners, *_ = msgpack.unpackb(packed)
    return Facts(labels, fields, uid, tuple(owners))
