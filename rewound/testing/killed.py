"""Describes how a process ended: its exit code as shells count, and in words which signal killed it.

It imports nothing but the standard library: the programs of `rewound envtest` run without site-packages.
"""

from __future__ import annotations

import signal

KILLED = 128  # and the number of the signal
_CRASHES = ("SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT")


def exit_code(code: int) -> int:
    """The exit code that a shell reports; `code` is negative if a signal ended the process, as in `subprocess`."""
    return code if code >= 0 else KILLED - code


def killed_by(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:  # one of the numbers for real-time signals
        name = f"signal {number}"
    if name == "SIGKILL":
        return "killed by SIGKILL: out of memory? `dmesg` says whether the kernel did it"
    return f"killed by {name}{': a crash in native code' if name in _CRASHES else ''}"
