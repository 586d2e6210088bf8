"""The limit of open files: ten thousand watchers need as many sockets here and in the server."""

from __future__ import annotations

import resource

# Besides sockets of watchers, a process opens its journal or its writers, logs, and files of the interpreter.
OTHER_FILES = 160


def raise_file_limit() -> int:
    """Raise the soft limit of this process, which child processes inherit, to the hard limit; returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return 1 << 20 if hard == resource.RLIM_INFINITY else hard


def shortage(sockets: int) -> str:
    """Why a process cannot open this many sockets; empty when it can."""
    limit = raise_file_limit()
    if limit >= sockets + OTHER_FILES:
        return ""
    return f"{sockets} sockets need more than the limit of {limit} open files per process: raise it with ulimit -Hn"
