"""The comparison of a writable replay with what happened, as text for people."""

from __future__ import annotations

from collections.abc import Iterator

from actors.rewind.difference import describe, escaped
from gateway.replay.comparison import Comparison, ObjectComparison
from gateway.replay.recorded_writes import Skipped
from journal.records import Event


def report(comparison: Comparison) -> list[str]:
    """Lines; the last one sums it up."""
    lines = [line for one in comparison.objects for line in _object(one)]
    lines += _skipped(comparison.skipped)
    return [*map(escaped, lines), _sum(comparison)]


def _object(one: ObjectComparison) -> Iterator[str]:
    where = f"{one.namespace}/{one.name}" if one.namespace else one.name
    yield f"{'=' if one.same else '~'} {one.type_name} {where}{_ending(one)}"
    yield f"    recorded  {_writes(one.recorded)}"
    yield f"    here      {_writes(one.here)}"
    for change in one.changes:
        yield f"    {change.sign} {describe(change)}"


def _ending(one: ObjectComparison) -> str:
    if one.same:
        return " ends the same" if one.after is not None else " is gone on both sides"
    if one.before is None:
        return " exists only here"
    if one.after is None:
        return " exists only in the recording"
    return ""


def _writes(events: list[Event]) -> str:
    if not events:
        return "nothing"
    who = ", ".join(
        dict.fromkeys(f"{one.user} with {one.manager}" if one.manager else one.user for one in events)
    )
    first, last = events[0].offset, events[-1].offset
    versions = f"version {first}" if first == last else f"versions {first} to {last}"
    return f"{len(events)} write{'s' if len(events) > 1 else ''} by {who} ({versions})"


def _skipped(skipped: tuple[Skipped, ...]) -> Iterator[str]:
    for one in skipped:
        event = one.event
        where = f"{event.namespace}/{event.name}" if event.namespace else event.name
        yield f"! version {event.offset}, {event.verb} of {where} by {event.user}, was not applied: {one.why}"


def _sum(comparison: Comparison) -> str:
    span = f"from version {comparison.fork} to {comparison.end}"
    objects = len(comparison.objects)
    if comparison.same:
        return f"no difference {span}: {objects} object{'s' if objects != 1 else ''} compared"
    different = sum(not one.same for one in comparison.objects)
    return f"{different} of {objects} object{'s' if objects != 1 else ''} differ {span}"
