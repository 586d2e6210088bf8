"""How many examples the tests of properties try.

`make test` tries a few, the same ones in every run, because it must not fail by chance. `make robustness` tries many
random ones.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings

SHORT = 40  # examples, where a test does not say how many


def register_profiles() -> None:
    """Neither has a deadline: no test may depend on how long an example takes."""
    settings.register_profile("short", deadline=None, max_examples=SHORT, derandomize=True, database=None)
    settings.register_profile("thorough", deadline=None, max_examples=SHORT * 20)
    settings.load_profile("short")


def examples(count: int, **more: Any) -> settings:
    """For a test that needs more or fewer than others: so many in `make test`, many times that in `make robustness`."""
    assert settings.default is not None
    return settings(max_examples=count * settings.default.max_examples // SHORT, **more)
