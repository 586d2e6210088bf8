"""Resolves moments to versions that the journal can show: from the retention floor to the head."""

from __future__ import annotations

import time

from gateway.cli.journal.query.failure import Failure
from gateway.cli.journal.query.moments import Moment
from gateway.cli.journal.query.times import exact
from journal import history
from journal.view import View


def resolve(view: View, moment: Moment) -> int:
    """The version of a moment; Failure when it is below the floor, ahead of the head or in the future."""
    version, head, floor = moment.version(view), view.head, view.floor
    if version > head:
        raise Failure(f"version {version} is ahead of the journal, which is at {head}; take one up to that")
    if version == head and moment.time is not None and moment.time > time.time_ns() // 1000:
        raise Failure(f"{exact(moment.time)} is in the future; take a time that has passed")
    if version < floor:
        what = "that time" if moment.time is not None else f"version {version}"
        raise Failure(f"{what} is older than the journal keeps; {_oldest(view, floor)}")
    return version


def _oldest(view: View, floor: int) -> str:
    first = view.event(next(history.ascending(view, history.whole_log(view), floor + 1)))
    when = f" (shortly before {exact(first.time)})" if first is not None else ""
    return f"the oldest version is {floor}{when}"
