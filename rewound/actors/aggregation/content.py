"""Results and errors of the calls that controllers make to aggregated servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Undiscovered(Exception):
    """The resources of the group version are unknown; the text says why."""


class NoResponse(Exception):
    """The server did not send the expected response; the text says why, in the words of client-go."""


class RemoteContent(NamedTuple):
    """What is left of a namespace in one group version."""

    remaining: Mapping[str, Sequence[tuple[str, ...]]]  # by resource: the finalizers of each object
    failures: tuple[str, ...] = ()
