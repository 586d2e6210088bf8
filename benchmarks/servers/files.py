"""Open files: ten thousand watchers are as many sockets here and in the server, more than most shells allow."""

from __future__ import annotations

import resource

# Besides watchers a process has its journal or its writers, logs, and whatever the interpreter opens.
BESIDES = 160


def raise_file_limit() -> int:
    """Take what the machine allows this process, and with it those it starts; gives the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return 1 << 20 if hard == resource.RLIM_INFINITY else hard


def shortage(sockets: int) -> str:
    """Why so many sockets cannot be opened; empty when they can."""
    limit = raise_file_limit()
    if limit >= sockets + BESIDES:
        return ""
    return f"{sockets} sockets and no more than {limit} open files a process: raise it with ulimit -Hn"
