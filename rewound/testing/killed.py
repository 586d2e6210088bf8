"""Says in words which signal ended a process, and what to look at first.

It imports nothing but the standard library: the programs of `rewound envtest` run without site-packages.
"""

from __future__ import annotations

import signal

_CRASHES = ("SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT")


def killed_by(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:  # one of the numbers for real-time signals
        name = f"signal {number}"
    if name == "SIGKILL":
        return "killed by SIGKILL: out of memory? `dmesg` says whether the kernel did it"
    return f"killed by {name}{': a crash in native code' if name in _CRASHES else ''}"
