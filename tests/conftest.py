"""Settings of all tests: profiles of hypothesis, shared kinds, and few collections of garbage.

The collected tests and the modules live as long as the process; every full collection of garbage would visit their
half a million objects in vain.
"""

import gc

import pytest

from tests.examples import register_profiles
from tests.shared_kinds import share_kinds

register_profiles()
share_kinds()
gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)
    gc.enable()
