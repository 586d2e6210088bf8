from __future__ import annotations

import logging

from rewound.gateway.ops.checks import log_problem


class Broken(logging.Handler):
    def flush(self) -> None:
        raise OSError(28, "No space left on device")


def test_unwritable_log_is_a_problem() -> None:
    root, broken = logging.getLogger(), Broken()
    assert log_problem() is None
    root.addHandler(broken)
    try:
        assert "No space left on device" in (log_problem() or "")
    finally:
        root.removeHandler(broken)
