"""Named steps at which a robustness test may kill the process.

    REWOUND_FAILPOINT="journal.append:before-commit:17"      SIGKILL when that step is reached for the 17th time

The variable is read once, at import: without it a step costs one comparison with None.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

VARIABLE = "REWOUND_FAILPOINT"

Failpoint = Callable[[str], None]


def parse(site: str, setting: str) -> Failpoint | None:
    """The function to call at each step of `site`; None if the setting names another site or is empty."""
    wanted_site, _, rest = setting.partition(":")
    step, _, times = rest.partition(":")
    if wanted_site != site or not step:
        return None
    left = int(times or 1)

    def failpoint(reached: str) -> None:
        nonlocal left
        if reached != step:
            return
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return failpoint


def from_environment(site: str) -> Failpoint | None:
    return parse(site, os.environ.get(VARIABLE, ""))
