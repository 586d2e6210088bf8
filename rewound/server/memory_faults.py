"""Ends the process with a clear last line when LMDB crashes on a damaged file.

LMDB maps its file into memory: reading a truncated part raises SIGBUS, and damaged pages make it abort (SIGABRT) or
read invalid addresses (SIGSEGV). By default these end the process without a message.

The handlers are installed with the C library's `signal`: Python's own handlers run after the faulting instruction,
which never ends. They run Python code at the place of the fault, which is safe only because nothing continues after
it: one write to standard error, then `_exit`.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

EXIT_CODE = 74  # EX_IOERR of sysexits.h
SIGNALS = (signal.SIGBUS, signal.SIGSEGV, signal.SIGABRT)

_installed: list[Any] = []  # the C library holds only an address


def explain_memory_faults(folder: Path) -> bool:
    """Install the handlers, whose line names `folder`. Returns False where the C library has no `signal`."""
    import ctypes

    line = (
        f"rewound: stopped by %s: the journal in {folder} was damaged while it was open (its file was cut or "
        "overwritten, or its disk fails): run `rewound journal verify` on the data folder, then restore it from a "
        "backup, or save what is sound with `rewound journal recover`\n"
    )
    lines = {int(number): (line % number.name).encode() for number in SIGNALS}

    def stop(number: int) -> None:
        try:
            os.write(2, lines[number])
        finally:
            os._exit(EXIT_CODE)

    handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(stop)
    try:
        install = ctypes.CDLL(None).signal
    except (OSError, AttributeError):
        return False
    install.argtypes, install.restype = (ctypes.c_int, type(handler)), ctypes.c_void_p
    _installed.append(handler)
    for number in SIGNALS:
        install(number, handler)
    return True
