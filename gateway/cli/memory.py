"""How the C library keeps memory, set before a server starts.

Answers of some megabytes come and go. With its defaults glibc gives such memory back to the kernel after each one
and has it zeroed again for the next, which costs a list of 2,000 objects a fifth of its time. Rejected: environment
variables, which only a wrapper around the command could set.
"""

from __future__ import annotations

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
# Free memory at the end of the heap up to this is kept; larger pieces than half of it still go back at once.
KEPT = 64 << 20


def keep_memory() -> bool:
    """False where the C library has no such settings: the server then works with what it does by itself."""
    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_MMAP_THRESHOLD, KEPT // 2)) and bool(mallopt(_TRIM_THRESHOLD, KEPT))
