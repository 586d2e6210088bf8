"""`/debug/rewound/replay`: where a replay is, and how programs and the web page move it.

    GET                                                   the state
    POST {"action": "play", "speed": "10x"}               speed: as before unless given; "max" as fast as watchers read
    POST {"action": "pause"}
    POST {"action": "step", "count": 3}                   forward by events
    POST {"action": "back", "count": 3}
    POST {"action": "goto", "at": "1042"}                 or a time: "2026-11-15T04:07:33Z"

Each responds with the state after it. Going back ends the open watches with 410.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rewound.actors.errors import BadRequest
from rewound.actors.rewind.moments import parse_moment, rfc3339
from rewound.gateway.message import Response
from rewound.gateway.pipeline import render
from rewound.gateway.pipeline.context import RequestContext
from rewound.journal import history
from rewound.journal.recording import Recording
from rewound.recording.replay.player import FULL_SPEED, Moment, Player, time_at
from rewound.server.controls import json_body

MAX_STEPS = 1_000_000


class ReplayControl:
    def __init__(self, player: Player, recording: Recording) -> None:
        self._player, self._recording = player, recording

    def add_to(self, add: Callable[..., None]) -> None:
        add("GET", "replay", self._show)
        add("POST", "replay", self._move)

    async def _show(self, context: RequestContext) -> Response:
        return await render.document(context, self.state())

    async def _move(self, context: RequestContext) -> Response:
        body = json_body(context)
        if not isinstance(body, dict):
            raise BadRequest('the body must be like {"action": "step", "count": 1}')
        await self.perform(body)
        return await render.document(context, self.state())

    async def perform(self, wanted: dict[str, Any]) -> None:
        """Perform the action of a document. Raises BadRequest."""
        player = self._player
        match wanted.get("action"):
            case "play":
                player.play(None if "speed" not in wanted else parse_speed(str(wanted["speed"])))
            case "pause":
                player.pause()
            case "step":
                await player.step(_count(wanted))
            case "back":
                await player.back(_count(wanted))
            case "goto":
                await player.go_to(find_moment(self._recording, str(wanted.get("at", ""))))
            case other:
                raise BadRequest(f"action: {other!r} is not one of play, pause, step, back and goto")

    def state(self) -> dict[str, Any]:
        state = self._player.state()
        return {
            "kind": "Replay",
            "apiVersion": "rewound.cluster.io/v1",
            **_document(state.now),
            "playing": state.playing,
            "speed": written_speed(state.speed),
            "start": _document(state.start),
            "end": _document(state.end),
            "stopped": state.stopped,
        }


def find_moment(recording: Recording, text: str) -> Moment:
    """The moment of a version, or of a time in RFC 3339. Raises BadRequest if it is neither."""
    moment = parse_moment(text)
    if moment.time is None:
        assert moment.version is not None
        return Moment(moment.version, 0)
    return moment_at(recording, moment.time)


def moment_at(recording: Recording, time: int) -> Moment:
    """The moment of a time; after the recording's end, the end. Raises BadRequest before its first event."""
    first, last = extent_of(recording)
    if time < first.time:
        raise BadRequest(
            f"{rfc3339(time)} is before the first event: the recording has {written_moment(first)} "
            f"to {written_moment(last)}"
        )
    with recording.read_all() as view:
        version = min(view.offset_at(time), recording.end)
        return Moment(max(version, view.floor), time)


def extent_of(recording: Recording) -> tuple[Moment, Moment]:
    """The first moment that a recording can show, and the last. A recording without events has both at time 0."""
    with recording.read_all() as view:
        first = view.floor or next(history.ascending(view, history.whole_log(view), 1), 0)
    first = min(first, recording.end)
    return (
        Moment(first, time_at(recording, first)),
        Moment(recording.end, time_at(recording, recording.end)),
    )


def written_moment(moment: Moment) -> str:
    return f"version {moment.version} of {rfc3339(moment.time)}"


def parse_speed(text: str) -> float:
    """Parse 10, 10x, 0.5x or max. Raises BadRequest if it is none of these."""
    if text == "max":
        return FULL_SPEED
    try:
        speed = float(text.removesuffix("x"))
    except ValueError:
        speed = 0.0
    if not 0 < speed < FULL_SPEED:
        raise BadRequest(f"speed: {text!r} is not a speed; write 1x, 10x, 0.5x or max")
    return speed


def written_speed(speed: float) -> str:
    return "max" if speed == FULL_SPEED else f"{speed:g}x"


def _count(wanted: dict[str, Any]) -> int:
    count = wanted.get("count", 1)
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MAX_STEPS:
        raise BadRequest(f"count: {count!r} is not a number from 1 to {MAX_STEPS}")
    return count


def _document(moment: Moment) -> dict[str, Any]:
    return {"version": str(moment.version), "time": rfc3339(moment.time) if moment.time else None}
