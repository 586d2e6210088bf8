"""The events between --since and --until, as offsets. A range that no event can be in is refused."""

from __future__ import annotations

import time

from gateway.cli.journal.query.failure import UsageError
from gateway.cli.journal.query.moments import Moment
from gateway.cli.journal.query.times import exact
from journal.view import View


def event_range(view: View, since: Moment | None, until: Moment | None) -> tuple[int, int]:
    """The first and the last offset. UsageError when --since is in the future or after --until."""
    head = view.head
    if since is not None:
        _check_past(view, since)
    first = since.first(view) if since else 0
    last = min(until.version(view), head) if until else head
    if since is not None and until is not None and _after(view, since, until):
        raise UsageError(
            f"--since ({_shown(view, since)}) is after --until ({_shown(view, until)}); exchange them"
        )
    return first, last


def _check_past(view: View, since: Moment) -> None:
    if since.offset is not None and since.offset > view.head:
        raise UsageError(
            f"--since: there is no event {since.offset} yet, the newest is {view.head}; take one up to that"
        )
    if since.time is not None and since.time > time.time_ns() // 1000:
        raise UsageError(f"--since: {exact(since.time)} is in the future; take a time that has passed")


def _after(view: View, since: Moment, until: Moment) -> bool:
    """Whether no event could be in between: two times without events between them are in order."""
    if since.time is not None and until.time is not None:
        return since.time > until.time
    return since.first(view) > until.version(view)


def _shown(view: View, moment: Moment) -> str:
    if moment.time is not None:
        return exact(moment.time)
    return f"event {view.head if moment.offset is None else moment.offset}"
