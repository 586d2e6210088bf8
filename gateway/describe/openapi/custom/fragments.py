"""What one version of a custom kind adds to the OpenAPI 3.0 document of its group version, encoded.

A change of one kind makes its own fragment again and no other. Fragments that were used last are kept, up to a bound
of memory: a server may have thousands of custom kinds, and clients read few of their documents.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from actors.kinds.custom.definition import CustomDefinition
from gateway.describe.openapi.custom.templates import Names, Template
from gateway.describe.openapi.schemas import References, Schemas

KEPT_BYTES: Final = 8 << 20

EncodedDefinition = tuple[bytes, References]  # with its name, and what it refers to


@dataclass(frozen=True, slots=True)
class Fragment:
    template: Template  # of the paths
    names: Names
    definitions: Mapping[str, EncodedDefinition]  # of the kind and of its list
    source_size: int  # bytes of the CustomResourceDefinition, which a kept fragment keeps too

    @property
    def paths(self) -> bytes:
        """Members of "paths"."""
        return self.template.fill(self.names)

    @property
    def size(self) -> int:
        return self.source_size + sum(len(one) for one, _ in self.definitions.values())


class FragmentCache:
    """The fragments that were used last."""

    def __init__(self, kept_bytes: int = KEPT_BYTES) -> None:
        self._most = kept_bytes
        self._kept: OrderedDict[CustomDefinition, Fragment] = OrderedDict()
        self._size = 0

    def find(self, definition: CustomDefinition) -> Fragment | None:
        found = self._kept.get(definition)
        if found is not None:
            self._kept.move_to_end(definition)
        return found

    def keep(self, definition: CustomDefinition, fragment: Fragment) -> Fragment:
        self._size += fragment.size
        if definition in self._kept:
            self._size -= self._kept.pop(definition).size
        self._kept[definition] = fragment
        while self._size > self._most and len(self._kept) > 1:
            self._size -= self._kept.popitem(last=False)[1].size
        return fragment


def definitions_in_order(
    references: References, own: Mapping[str, EncodedDefinition], schemas: Schemas[bytes]
) -> Iterator[bytes]:
    """Every definition that a document needs: those in `references`, then those that these refer to, and so on.

    `own` are the definitions of custom kinds; `schemas` encodes all others.
    """
    found = dict(references)
    done: set[str] = set()
    while pending := [name for name in found if name not in done]:
        for name in pending:
            done.add(name)
            encoded, more = own[name] if name in own else schemas.encoded(name, found[name])
            yield encoded
            for referred, type_ in more.items():
                found.setdefault(referred, type_)
