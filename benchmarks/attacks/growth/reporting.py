"""The command `rewound` in a process that reports what its event loop did: `... -m THIS SOCKET serve ...`.

A thread responds on the Unix socket while the loop is held: to `reset` with nothing new, and to `read` with processor
time, the longest hold since the reset with its stack, the step that runs now, and the largest memory.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import trio

from tests import loop_holds
from tests.loop_holds import Hold, HoldMeter, Stack, measured_run

_LIMIT = 0.01  # seconds; shorter holds are not kept


class Reporter:
    def __init__(self) -> None:
        self._longest: Hold | None = None
        self._began = 0.0

    def ended(self, hold: Hold) -> None:
        if self._longest is None or hold.seconds > self._longest.seconds:
            self._longest = hold

    def reset(self) -> dict[str, Any]:
        self._longest, self._began = None, time.process_time()
        Path("/proc/self/clear_refs").write_text("5")  # the largest memory is that from now on
        return {}

    def read(self) -> dict[str, Any]:
        hold, now = self._longest, 0.0
        stack: Stack = () if hold is None else hold.stack
        for meter in loop_holds.meters():
            began = meter.step_began
            if began is not None and (current := meter.now() - began) > now:
                now, stack = current, _current_stack(meter)
        longest = max(now, 0.0 if hold is None else hold.seconds)
        if hold is not None and hold.seconds >= now:
            stack = hold.stack
        return {
            "cpu": time.process_time() - self._began,
            "hold": longest,
            "stack": [loop_holds.place(*each) for each in stack],
            "memory": _largest_memory(),
        }

    def serve(self, path: str) -> None:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(f"{path}.new")
        listener.listen()
        Path(f"{path}.new").rename(path)  # who finds it can connect
        while True:
            connection, _ = listener.accept()
            with connection, connection.makefile("rw") as lines:
                for line in lines:
                    reply = self.reset() if line.strip() == "reset" else self.read()
                    lines.write(json.dumps(reply) + "\n")
                    lines.flush()


def _current_stack(meter: HoldMeter) -> Stack:
    frame = sys._current_frames().get(meter.thread)
    summary = [] if frame is None else traceback.extract_stack(frame)
    return tuple((each.filename, each.lineno or 0, each.name) for each in reversed(summary))


def _largest_memory() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def main() -> None:
    path, *arguments = sys.argv[1:]
    reporter = Reporter()
    threading.Thread(target=reporter.serve, args=(path,), name="reports", daemon=True).start()
    trio.run = measured_run(_LIMIT, reporter.ended, of_tests=False)
    from rewound.cli.main import main as command

    sys.argv = ["rewound", *arguments]
    sys.exit(command())


if __name__ == "__main__":
    main()
