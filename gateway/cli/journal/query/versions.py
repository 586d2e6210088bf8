"""Versions that a command can be asked about: from the retention floor to the head."""

from __future__ import annotations

from gateway.cli.journal.query.failure import Failure
from gateway.cli.journal.query.moments import Moment
from gateway.cli.journal.query.times import exact
from journal import history
from journal.view import View


def reach(view: View, moment: Moment) -> int:
    """The version of a moment; Failure when the journal does not know it any more, or not yet."""
    version, head, floor = moment.version(view), view.head, view.floor
    if version > head:
        raise Failure(f"version {version} is ahead of the journal, which is at {head}; take one up to that")
    if version < floor:
        asked = "that time" if moment.time is not None else f"version {version}"
        raise Failure(f"{asked} is further back than the journal keeps; {_oldest(view, floor)}")
    return version


def _oldest(view: View, floor: int) -> str:
    behind = view.event(next(history.ascending(view, history.whole_log(view), floor + 1)))
    when = f" (shortly before {exact(behind.time)})" if behind is not None else ""
    return f"the oldest version is {floor}{when}"
