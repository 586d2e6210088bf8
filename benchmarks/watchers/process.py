"""The watching client, `python -m benchmarks.watchers.process`: orders on standard input, accounts on standard output.

The first line says where to watch; each line after it is one order of `requests`. An order that fails ends the process
with its reason.
"""

from __future__ import annotations

import gc
import json
import sys
from dataclasses import asdict

from benchmarks.watchers.pool import Crowd, Hangs
from benchmarks.watchers.requests import decode_assignment, decode_order
from benchmarks.watchers.watcher import NotServed


def main() -> int:
    gc.disable()  # nothing here makes cycles, and a collection would show as latency of the server
    crowd = Crowd(decode_assignment(sys.stdin.readline()))
    try:
        for line in iter(sys.stdin.readline, ""):
            print(json.dumps(asdict(crowd.perform(decode_order(line)))), flush=True)
    except (OSError, Hangs, NotServed) as problem:
        print(f"{type(problem).__name__}: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
