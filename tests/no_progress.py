"""Commands show no progress in tests, however long a busy machine takes: tests compare what they write to stderr."""

from __future__ import annotations

import math
import sys

from rewound.recording import progress

USUAL_DELAY = progress.DELAY
# `rewound` as a process that shows none.
COMMAND = [
    sys.executable,
    "-c",
    "import math, sys; from rewound.cli.main import main; from rewound.recording import progress; "
    "progress.DELAY = math.inf; sys.exit(main())",
]


def show_no_progress() -> None:
    progress.DELAY = math.inf
