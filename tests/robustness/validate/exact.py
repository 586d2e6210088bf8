"""Exact: the state is what the log says, and the log has what clients received."""

from __future__ import annotations

from tests.robustness.guarantees import GuaranteeBroken
from tests.robustness.history import History, ServerRun
from tests.robustness.objects import bare


def exact(history: History) -> None:
    for run in history.runs:
        if run.contents.differences:
            raise GuaranteeBroken(
                "Exact", f"after run {run.number} ({run.ending}): {run.contents.differences}"
            )
        _check_state(run)
        _check_responses(run)
    for earlier, later in zip(history.runs, history.runs[1:], strict=False):
        _check_found(earlier, later)


def _check_state(run: ServerRun) -> None:
    contents = run.contents
    if contents.rows != contents.at(contents.head):
        raise GuaranteeBroken(
            "Exact", f"after run {run.number} the stored state differs from a replay of its events"
        )


def _check_responses(run: ServerRun) -> None:
    """Every acknowledged version is an event with the content of the response, unless retention removed it."""
    entries = {entry.offset: entry for entry in run.contents.entries}
    for operation in run.operations:
        made = operation.made
        if made is None:
            continue
        entry = entries.get(made)
        if entry is None:
            if made > run.contents.floor:
                raise GuaranteeBroken("Exact", f"the log has no event for {operation}")
        elif entry.key != operation.key or entry.body != bare(operation.response):
            raise GuaranteeBroken(
                "Exact", f"event {made} is {entry.body}, but the response was {operation.response}"
            )


def _check_found(earlier: ServerRun, later: ServerRun) -> None:
    """A restarted server serves what its folder held before it started."""
    served = {key: bare(shown) for key, shown in later.found.items()}
    if served != earlier.contents.rows:
        wrong = [
            f"{key}: served {served.get(key)}, stored {earlier.contents.rows.get(key)}"
            for key in sorted({*served, *earlier.contents.rows})
            if served.get(key) != earlier.contents.rows.get(key)
        ]
        raise GuaranteeBroken(
            "Exact", f"run {later.number} began with another state than was stored: {wrong[:3]}"
        )
