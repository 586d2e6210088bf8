"""How many examples the property tests try.

`make test` tries a few, the same ones in every run, because it must not fail by chance. `make robustness` tries many
random ones.

Hypothesis also tries constants from the source of all modules that are imported at the time. That takes five seconds at
the start of every process in a new clone, and which examples a test tries would depend on the tests that ran before it:
only `make robustness` does it.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis.internal.conjecture import providers

SHORT, THOROUGH = 25, 800  # examples, where a test does not say how many


def register_profiles() -> None:
    """Neither has a deadline: no test may depend on how long an example takes."""
    settings.register_profile("short", deadline=None, max_examples=SHORT, derandomize=True, database=None)
    settings.register_profile("thorough", deadline=None, max_examples=THOROUGH)
    settings.load_profile("short")
    _leave_constants_of_sources_out()


def _leave_constants_of_sources_out() -> None:
    """Make the examples the same in every run, also with a release of hypothesis that lacks this function."""
    of_sources = getattr(providers, "_get_local_constants", None)
    none = getattr(providers, "_local_constants", None)

    def local_constants() -> Any:
        assert settings.default is not None and of_sources is not None
        return none if settings.default.derandomize else of_sources()

    if of_sources is not None and none is not None:
        providers._get_local_constants = local_constants  # type: ignore[attr-defined]


def examples(count: int, **more: Any) -> settings:
    """Settings of a test that needs more or fewer examples: this many in `make test`, many times that in `make
    robustness`.
    """
    assert settings.default is not None
    return settings(max_examples=count * settings.default.max_examples // SHORT, **more)
