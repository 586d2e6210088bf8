"""Writes small journals with known times, users and contents, and runs `rewound journal` on them.

    write_history(folder, [put("web", {"color": "blue"}), put("web", {"color": "red"}, user="bob"), delete("web")])
    result = run_journal("log", "--data-dir", str(folder))

Event n happens n seconds past noon UTC of one day. Nothing here needs a server: `test_cli_journal_live.py` has one.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from rewound.actors.selectors.facts import pack_facts
from rewound.cli.main import main
from rewound.journal import Event, Journal

NOON = round(datetime(2024, 5, 1, 12, 0, tzinfo=UTC).timestamp() * 1_000_000)


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def documents(self) -> list[Any]:
        return [json.loads(line) for line in self.lines]

    @property
    def document(self) -> Any:
        (only,) = self.documents
        return only


def run_journal(*arguments: str | Path) -> Result:
    """`rewound journal ...` in this process."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["journal", *map(str, arguments)])
    out.flush()
    return Result(code, out.buffer.getvalue().decode(), err.getvalue())  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Step:
    """One write. `content` is the object without its name and version; None deletes it."""

    name: str
    content: dict[str, Any] | None
    namespace: str = "default"
    type_name: str = "configmaps"
    user: str = "alice"
    verb: str = ""
    manager: str = "kubectl"
    metadata: dict[str, Any] = field(default_factory=dict)


def put(name: str, data: dict[str, Any] | None = None, **more: Any) -> Step:
    return Step(name, {"data": data} if data else {}, **more)


def delete(name: str, **more: Any) -> Step:
    return Step(name, None, **more)


class HistoryWriter:
    """Appends steps as events."""

    def __init__(self, journal: Journal, start: int = NOON) -> None:
        self._journal = journal
        self._start = start
        self._bodies: dict[tuple[int, str, str], dict[str, Any]] = {}
        self._offsets: dict[tuple[int, str, str], int] = {}

    def write(self, steps: Sequence[Step]) -> None:
        self._journal.append(
            [self._event(self._journal.head + 1 + at, step) for at, step in enumerate(steps)]
        )

    def _event(self, offset: int, step: Step) -> Event:
        key = (self._journal.register_type(step.type_name), step.namespace, step.name)
        previous = self._offsets.pop(key, 0)
        removed = step.content is None
        if step.content is not None:
            self._offsets[key] = offset
            self._bodies[key] = {
                "metadata": {"name": step.name, "namespace": step.namespace, **step.metadata},
                **step.content,
            }
        body = self._bodies[key]
        metadata = {name: value for name, value in body["metadata"].items() if value}
        body = {**body, "metadata": {**metadata, "resourceVersion": str(offset)}}
        verb = step.verb or ("delete" if removed else "update" if previous else "create")
        return Event(
            offset,
            key[0],
            verb,
            step.namespace,
            step.name,
            previous,
            removed,
            self._start + offset * 1_000_000,
            step.user,
            step.manager,
            pack_facts({}, {}, f"uid-{step.name}", ()),
            orjson.dumps(body),
        )


def write_history(
    folder: Path, steps: Sequence[Step], dialect: str = "cluster", *, start: int = NOON
) -> None:
    """Write a history into a new data folder and close it, because a journal has one writer."""
    journal = Journal.open(folder / "journal", dialect=dialect)
    HistoryWriter(journal, start).write(steps)
    journal.close()
