"""What a recording missed: the file of a flight recorder beside the journal, and what a caller may see of it.

    {"id": 3, "from": 1700000000000000, "to": 1700000060000000, "why": "expired", "kinds": ["pods"], "missing": true,
     "message": "the version of the watch has expired"}

    stopped      the recorder did not run; its watches then resumed
    unreachable  the API server did not respond; the watches then resumed
    expired      the version of a watch had left the history of the server: versions in between are missing
    refused      the user may not read the kind, so it is not recorded
    gone         the server no longer serves the kind: its objects stay in the recording as they were last
    failing      the server responds with errors, or with what cannot be read; the watches then resumed
    unlisted     the recording began without the kind, because it could not be listed
    left-out     versions of some objects of the kind could not be recorded; everything else of it was

Times are microseconds since 1970. Without `to` it lasts; no kinds are all of them. `missing` says whether versions are
missing for certain; after the others nothing is, unless an `expired` of the same time says so. A later line with the
same id replaces an earlier one. `recording.record.gaps` writes the file.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from rewound.actors.rewind.moments import rfc3339
from rewound.rewind.gap_texts import LEFT_OUT, WORDS

FILE: Final = "gaps.jsonl"
LONGEST: Final = 64 << 10  # bytes of a line


@dataclass(slots=True)
class Gap:
    id: int
    begin: int
    why: str
    end: int = 0  # 0: it lasts
    kinds: set[str] = field(default_factory=set)  # empty: all
    missing: bool = False
    message: str = ""

    def line(self) -> bytes:
        document: dict[str, Any] = {"id": self.id, "from": self.begin, "why": self.why}
        if self.end:
            document["to"] = self.end
        document |= {"kinds": sorted(self.kinds), "missing": self.missing, "message": self.message}
        return orjson.dumps(document) + b"\n"

    def document(self) -> dict[str, Any]:
        """As the API shows it."""
        return {
            "from": rfc3339(self.begin),
            **({"to": rfc3339(self.end)} if self.end else {}),
            "why": self.why,
            "kinds": sorted(self.kinds),
            "missing": self.missing,
            "message": self.message,
        }

    def timed_document(self) -> dict[str, Any]:
        """The same with its times in microseconds since 1970."""
        end = {"toMicros": self.end} if self.end else {}
        return {**self.document(), "fromMicros": self.begin, **end}

    def has(self, time: int) -> bool:
        return self.begin <= time and (not self.end or time < self.end)


def gaps_in(folder: Path) -> list[Gap]:
    """The gaps of a folder, by id; none without the file. Lines that a crash cut short are skipped."""
    found: dict[int, Gap] = {}
    try:
        stream = (folder / FILE).open("rb")
    except (FileNotFoundError, NotADirectoryError):
        return []
    with stream:
        while line := stream.readline(LONGEST):
            try:
                one = orjson.loads(line)
                gap = Gap(
                    int(one["id"]),
                    int(one["from"]),
                    str(one["why"]),
                    int(one.get("to", 0)),
                    {str(kind) for kind in one["kinds"]},
                    bool(one["missing"]),
                    str(one["message"]),
                )
            except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError):
                continue
            found[gap.id] = gap
    return [found[number] for number in sorted(found)]


async def visible_gaps(
    gaps: Sequence[Gap],
    span: tuple[int, int],
    limit: int,
    sees: Callable[[str], Awaitable[bool]],
    *,
    sees_any: bool,
) -> list[dict[str, Any]]:
    """The gaps of a range, whose end is exclusive, newest first, with those of their kinds that the caller sees.

    The message of a gap may be about any of its kinds, so only who sees all of them gets it.
    """
    found: list[dict[str, Any]] = []
    seen: dict[str, bool] = {}
    newest = sorted(gaps, key=lambda one: (one.begin, one.id), reverse=True)
    for gap in newest:
        if gap.begin >= span[1] or (gap.end and gap.end <= span[0]):
            continue
        for kind in gap.kinds - seen.keys():
            seen[kind] = await sees(kind)
        shown = {kind for kind in gap.kinds if seen[kind]}
        if not (shown if gap.kinds else sees_any):
            continue
        message = gap.message if shown == gap.kinds else ""
        found.append({**gap.timed_document(), "kinds": sorted(shown), "message": message})
        if len(found) == limit:
            break
    return found


def warnings_at(folder: Path, kind: str, time: int) -> list[str]:
    """What to say about a kind at a time that a recording missed. It reads a file: call it in a thread."""
    found = {
        gap.why: gap for gap in gaps_in(folder) if gap.has(time) and (not gap.kinds or kind in gap.kinds)
    }
    return [
        f"{what_of(why, kind)} were not recorded from {rfc3339(gap.begin)} "
        f"{f'to {rfc3339(gap.end)}' if gap.end else 'on'}: {WORDS.get(why, why)}"
        for why, gap in found.items()
    ]


def what_of(why: str, kind: str) -> str:
    return f"some {kind}" if why == LEFT_OUT else kind
