"""The process of a cluster that `rewound up` starts: `rewound serve`, with a pid in its lock file and a bounded log.

    python -m rewound.cli.local.server LOCK LOG FLAG...

LOCK is the descriptor of the file that this process keeps locked until it ends, however it ends. LOG is the file to
which its standard output and error go already.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

LARGEST_LOG = 10 << 20  # bytes; the log before that is kept too
_LOOK_SECONDS = 20.0


def main() -> int:
    lock, log = int(sys.argv[1]), Path(sys.argv[2])
    os.set_inheritable(lock, False)  # a child that outlives this process must not keep the lock
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    threading.Thread(target=_keep_small, args=(log,), daemon=True).start()
    from rewound.cli.main import main as run

    return run(["serve", *sys.argv[3:]])


def _keep_small(log: Path) -> None:
    while True:
        rotate(log, LARGEST_LOG, (1, 2))
        threading.Event().wait(_LOOK_SECONDS)


def rotate(log: Path, largest: int, descriptors: tuple[int, ...] = ()) -> None:
    """Begin a new log if this one is too large; `descriptors` write to the new one then."""
    try:
        if log.stat().st_size <= largest:
            return
        log.replace(log.with_name(f"{log.name}.1"))
        new = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError:
        return  # such as on a full disk: the old one goes on
    for descriptor in descriptors:
        os.dup2(new, descriptor)
    os.close(new)


if __name__ == "__main__":
    sys.exit(main())
