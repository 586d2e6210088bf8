"""What the namespace controller needs of aggregated servers: that they delete the objects of a namespace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Undiscovered(Exception):
    """The resources of the group version are not known; the text says why."""


class RemoteContent(NamedTuple):
    """What remains of a namespace in one group version."""

    remaining: Mapping[str, Sequence[tuple[str, ...]]]  # by resource: the finalizers of each object
    failures: tuple[str, ...] = ()
