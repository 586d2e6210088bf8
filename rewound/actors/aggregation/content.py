"""What controllers ask of aggregated servers: to delete the objects of a namespace, and for metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Undiscovered(Exception):
    """The resources of the group version are not known; the text says why."""


class NoResponse(Exception):
    """The server did not respond with what was asked for; the text says why, as client-go does."""


class RemoteContent(NamedTuple):
    """What remains of a namespace in one group version."""

    remaining: Mapping[str, Sequence[tuple[str, ...]]]  # by resource: the finalizers of each object
    failures: tuple[str, ...] = ()
