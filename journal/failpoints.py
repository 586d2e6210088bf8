"""Named steps at which a robustness test may kill the process, as a power cut would.

    REWOUND_FAILPOINT="journal.append:before-commit:17"      SIGKILL at the 17th passage of that step

Read once, when the module is imported: without the variable a passage costs one comparison with None.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

VARIABLE = "REWOUND_FAILPOINT"

Passage = Callable[[str], None]


def armed(site: str, setting: str) -> Passage | None:
    """What to call at each step of `site`, or None when the setting names another site or nothing."""
    wanted_site, _, rest = setting.partition(":")
    step, _, passages = rest.partition(":")
    if wanted_site != site or not step:
        return None
    left = int(passages or 1)

    def passage(reached: str) -> None:
        nonlocal left
        if reached != step:
            return
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return passage


def from_environment(site: str) -> Passage | None:
    return armed(site, os.environ.get(VARIABLE, ""))
