"""A registry without a journal, for tests that only look up kinds."""

from __future__ import annotations

from collections.abc import Sequence

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.registry import Registry
from rewound.actors.names import Names


async def allocate_no_type_ids(_: Sequence[str]) -> None:
    """Allocate nothing: these tests store no objects, so no type needs an id."""


def registry_of(names: Names) -> Registry:
    return Registry(built_in(names), allocate_no_type_ids)
