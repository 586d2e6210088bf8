"""Sets malloc options of the C library before a server starts.

With its defaults glibc returns the memory of a response of some megabytes to the kernel, which zeroes it again for
the next response. That costs a list of 2,000 objects a fifth of its time. Rejected: environment variables, which
only a wrapper around the command could set.
"""

from __future__ import annotations

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
# malloc keeps up to this much free memory at the end of the heap; allocations above half of it use mmap.
KEPT = 64 << 20


def configure_malloc() -> bool:
    """False where the C library has no such options: the server then runs with its defaults."""
    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_MMAP_THRESHOLD, KEPT // 2)) and bool(mallopt(_TRIM_THRESHOLD, KEPT))
