"""Hands whole files of tests to the workers of pytest-xdist, instead of tests: `-p tests.whole_files`.

xdist lets every worker import and collect all tests, and then run its share. With this plugin a worker collects one
item for each file, and imports a file when it is handed to it: each file is imported once. Tests cannot be
selected by their names then, only by their files, marks and keywords.

Rejected: several pytest processes with a share each. xdist already hands out what is left, replaces a worker that
crashes, and reports everything once.
"""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path

import pytest


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    return UnreadFile.from_parent(parent, path=module_path) if hasattr(parent.config, "workerinput") else None


class UnreadFile(pytest.File):
    def collect(self) -> list[pytest.Item]:
        return [WholeFile.from_parent(self, name=self.name)]


class WholeFile(pytest.Item):
    """All tests of a file, of which one is running or none."""

    running: pytest.Item | None = None
    obj = None  # pytest-trio looks for a coroutine

    @property
    def nodeid(self) -> str:
        """xdist compares it with the reports of tests."""
        assert self.parent is not None
        return self.running.nodeid if self.running is not None else self.parent.nodeid

    def runtest(self) -> None:
        raise AssertionError("its tests run one by one")

    def run(self, following: pytest.Item | None) -> None:
        tests = self._collect()
        if not tests:
            # The last test before has left what this file would share with it, such as fixtures of the folder.
            self.session._setupstate.teardown_exact(following)
        for test, after in zip_longest(tests, tests[1:], fillvalue=following):
            self.running = test
            test.ihook.pytest_runtest_protocol(item=test, nextitem=after)
            if self.session.shouldfail or self.session.shouldstop:
                break
        self.running = None

    def _collect(self) -> list[pytest.Item]:
        assert self.parent is not None and self.parent.parent is not None
        module = pytest.Module.from_parent(self.parent.parent, path=self.path)
        tests = list(self.session.genitems(module))
        self.ihook.pytest_collection_modifyitems(session=self.session, config=self.config, items=tests)
        return tests


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    if not isinstance(item, WholeFile):
        return None
    item.run(nextitem)
    return True
