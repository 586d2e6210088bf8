"""Commands that somebody types while a replay runs: one a line."""

from __future__ import annotations

import sys
from typing import Any

import trio

from actors.errors import RequestError
from gateway.cli.journal.query.moments import parse_moment
from gateway.cli.journal.query.times import rfc3339
from gateway.replay.control import ReplayControl
from journal.errors import JournalError
from journal.recording import Recording

HELP = """\
play [SPEED]   go on in the recorded intervals, or at 10x, 0.5x, max
pause          stop there
step [N]       forward by one event, or N; Enter does the same
back [N]       back by one event, or N; open watches end
goto MOMENT    a version (1042), a time (2026-11-15T04:07:33Z, 12:03) or how long ago (10m)
status         where it is
quit           end"""


class Console:
    def __init__(self, control: ReplayControl, recording: Recording, stop: trio.Event) -> None:
        self._control, self._recording, self._stop = control, recording, stop

    async def run(self) -> None:
        while not self._stop.is_set():
            line = await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
            if not line:
                return  # the terminal is gone, but the server goes on
            print(await self.perform(line), flush=True)

    async def perform(self, line: str) -> str:
        """Do what a line says; returns what to print."""
        command, _, argument = line.strip().partition(" ")
        command, argument = command or "step", argument.strip()
        if command in ("quit", "exit", "q"):
            self._stop.set()
            return "ends"
        if command in ("help", "?"):
            return HELP
        try:
            if command != "status":
                await self._control.perform(_wanted(command, argument))
        except (RequestError, JournalError, ValueError) as error:
            return str(error)
        return describe(self._control.state())


def _wanted(command: str, argument: str) -> dict[str, Any]:
    """The document that a program would send. ValueError."""
    wanted: dict[str, Any] = {"action": command}
    if command == "goto":
        moment = parse_moment(argument)
        if moment.time is None and moment.offset is None:
            raise ValueError("goto MOMENT: which?")
        wanted["at"] = str(moment.offset) if moment.time is None else rfc3339(moment.time)
    elif argument and command == "play":
        wanted["speed"] = argument
    elif argument:
        wanted["count"] = int(argument) if argument.isdecimal() else argument
    return wanted


def describe(state: dict[str, Any]) -> str:
    doing = f"playing at {state['speed']}" if state["playing"] else state["stopped"] or "paused"
    return f"version {state['version']} of {state['end']['version']}, {state['time'] or 'empty'}: {doing}"
