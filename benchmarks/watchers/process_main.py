"""The watcher process, `python -m benchmarks.watchers.process_main`: reads commands, writes results.

The first line of standard input is the assignment; each line after it is one command of `commands`. Results go to
standard output. A command that fails ends the process and writes the reason to standard error.
"""

from __future__ import annotations

import gc
import json
import sys
from dataclasses import asdict

from benchmarks.loads.request import BadResponse
from benchmarks.watchers.commands import decode_assignment, decode_command
from benchmarks.watchers.pool import NoProgress, WatcherPool
from benchmarks.watchers.watcher import NotServed


def main() -> int:
    gc.disable()  # nothing here creates reference cycles, and a collection would show as latency of the server
    pool = WatcherPool(decode_assignment(sys.stdin.readline()))
    try:
        for line in iter(sys.stdin.readline, ""):
            print(json.dumps(asdict(pool.perform(decode_command(line)))), flush=True)
    except (OSError, NoProgress, NotServed, BadResponse) as problem:
        print(f"{type(problem).__name__}: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
