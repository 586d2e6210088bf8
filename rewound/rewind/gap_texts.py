"""What gaps of a recording mean, in words; a command that reads a server imports this and no journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

STOPPED, UNREACHABLE, EXPIRED, REFUSED, GONE = "stopped", "unreachable", "expired", "refused", "gone"
FAILING, UNLISTED, LEFT_OUT = "failing", "unlisted", "left-out"

WORDS: Final = {
    STOPPED: "the recorder did not run",
    UNREACHABLE: "the API server did not respond",
    EXPIRED: "the watch had expired, so versions are missing",
    REFUSED: "the recorder might not read it",
    GONE: "the server no longer served it",
    FAILING: "the API server responded with errors",
    UNLISTED: "it could not be listed",
    LEFT_OUT: "an object could not be recorded",
}
_EXPLAINED: Final = (FAILING, UNLISTED, LEFT_OUT)  # the message says more
NAMED: Final = 3  # kinds in a text


def joined(gaps: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join gaps that overlap for the same reason, which each kind has for itself; oldest first.

    They are as `visible_gaps` returns them.
    """
    found: list[dict[str, Any]] = []
    newest: dict[tuple[str, bool], dict[str, Any]] = {}
    for gap in sorted(gaps, key=lambda one: int(one["fromMicros"])):
        before = newest.get((gap["why"], gap["missing"]))
        if before is None or ("toMicros" in before and before["toMicros"] < gap["fromMicros"]):
            newest[gap["why"], gap["missing"]] = joint = {**gap}
            found.append(joint)
            continue
        before["kinds"] = sorted(
            {*before["kinds"], *gap["kinds"]} if before["kinds"] and gap["kinds"] else ()
        )
        if "toMicros" not in gap:
            before.pop("toMicros", None)
            before.pop("to", None)
        elif "toMicros" in before and gap["toMicros"] > before["toMicros"]:
            before |= {"toMicros": gap["toMicros"], "to": gap["to"]}
    return found


def text_of(gap: dict[str, Any]) -> str:
    """What a gap means: why, of which kinds, and whether versions are missing."""
    kinds, lasts = gap["kinds"], "toMicros" not in gap
    more = f" and {len(kinds) - NAMED} more kinds" if len(kinds) > NAMED else ""
    what = f"{', '.join(kinds[:NAMED])}{more}: " if kinds else ""
    text = f"{what}{WORDS.get(gap['why'], gap['why'])}"
    if gap["why"] in _EXPLAINED and gap["message"]:
        text += f" ({gap['message']})"
    if gap["missing"] or lasts or gap["why"] in (REFUSED, GONE):
        return text
    return f"{text}; nothing is missing"
