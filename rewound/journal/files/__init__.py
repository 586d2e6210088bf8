"""The files of a journal: creating and locking them, and checking them before LMDB opens them."""

import os
from collections.abc import Callable
from typing import Final

sync_data: Final[Callable[[int], None]] = getattr(os, "fdatasync", os.fsync)  # macOS has only fsync
