"""Settings of all tests: hypothesis, shared kinds, reports, limits of time, the current folder, and garbage.

The collected tests and the modules live as long as the process; every full garbage collection would visit their half
a million objects and free none.
"""

import gc
import math
import os
import sys

import pytest
import trio
from trio.testing import MockClock

from rewound.actors.store import committer
from tests.current_folder import EmptyFolder
from tests.examples import register_profiles
from tests.fewer_reports import send_fewer_reports
from tests.loop_limit import LoopLimit
from tests.no_progress import show_no_progress
from tests.shared_kinds import share_kinds
from tests.time_limit import TimeLimit
from tests.virtual_time import stopped_by_threads

LONG_TESTS = ("tests/robustness/", "tests/benchmarks/")
WITH_SERVERS = ("tests/api/", "tests/gateway/")


class OneName:
    """Refuses to import a folder of the repository as a top-level package: the repository is in `sys.path` here."""

    def find_spec(self, name: str, *_: object) -> None:
        if name in ("actors", "gateway", "journal"):
            raise ImportError(f"import it as rewound.{name}")


sys.meta_path.insert(0, OneName())  # type: ignore[arg-type]
register_profiles()
share_kinds()
# Commits run in the event loop, however slow this machine's disk is: virtual time and `wait_all_tasks_blocked` do not
# wait for threads. Tests of slow disks set another limit.
committer.SLOW_COMMIT = math.inf
show_no_progress()
gc.disable()
folder = EmptyFolder()


def pytest_configure(config: pytest.Config) -> None:
    send_fewer_reports(config)
    config.pluginmanager.register(TimeLimit())
    if "slipcover" not in sys.modules:  # it makes all code several times as slow
        config.pluginmanager.register(LoopLimit())


# Tests that only hold for a journal in a single process, by file and test: the order and the versions of events within
# a collection, quotas charged in the commit of objects, what the committer does with its disk, and which files a data
# folder has.
_EMBEDDED_ONLY = (
    "access/test_damaged_account_key.py::test_folder_that_cannot_be_written_fails_requests_with_a_reason",
    "access/test_damaged_account_key.py::test_unusable_key_fails_requests_with_a_reason",
    "admission/test_quota_charges.py::",
    "custom/test_established.py::",
    "lists/test_api_timeouts.py::test_delete_collection_beyond_its_timeout_leaves_the_rest",
    "objects/test_api_component_statuses.py::test_full_disk_makes_the_journal_unhealthy",
    "objects/test_api_delete_collection.py::test_each_object_has_a_delete_event",
    "objects/test_api_delete_collection.py::test_objects_are_deleted_in_the_order_of_the_list",
    "requests/test_api_overload.py::test_full_disk_refuses_writes_with_507",
    "server/test_api_damaged_journal.py::test_damaged_object_is_reported_and_stops_writes",
    "server/test_api_damaged_journal.py::test_refused_write_names_the_folder_in_the_log_only",
    "server/test_api_damaged_journal.py::test_replaced_data_file_stops_writes",
    "server/test_serving_data_folder.py::test_contents_of_the_data_folder",
    "server/test_serving_data_folder.py::test_no_certificates_without_a_secure_port",
    "server/test_serving_failed_start.py::test_folder_with_data_keeps_it",
    "webhooks/test_timeouts.py::test_write_that_is_being_stored_at_its_deadline_says_so",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests that take seconds first, so that no worker is left with one of them at the end."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG_TESTS))
    if os.environ.get("REWOUND_TESTS_ETCD"):
        skip = pytest.mark.skip(reason="holds for a journal that one process orders")
        for item in items:
            if item.nodeid.removeprefix("tests/api/").startswith(_EMBEDDED_ONLY):
                item.add_marker(skip)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    if any(item.nodeid.startswith(WITH_SERVERS) for item in session.items):
        # A server imports it in a thread for the first HTTP/2 connection, and a jumping clock waits for no thread.
        import rewound.gateway.connections.http2.connection  # noqa: F401
        from tests.gateway.api import prepare_initial_data

        prepare_initial_data()
    gc.freeze()
    gc.set_threshold(200_000, 10, 10)
    gc.enable()
    folder.enter()


@pytest.fixture
def autojump_clock(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> MockClock:
    """The fixture of pytest-trio, with a clock that stands still while a thread works."""
    monkeypatch.setattr(trio.to_thread, "run_sync", stopped_by_threads(trio.to_thread.run_sync))
    return autojump_clock


@pytest.fixture
def mock_clock(mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> MockClock:
    """The fixture of pytest-trio, with a clock that stands still: otherwise the server would delay unauthenticated
    clients.
    """
    from rewound.gateway.connections import limits

    monkeypatch.setattr(limits, "WorkShares", lambda: None)
    return mock_clock


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    folder.check()


def pytest_sessionfinish() -> None:
    folder.leave()
    shared_server = sys.modules.get("tests.gateway.shared_server")
    if shared_server is not None:
        shared_server.stop_shared()
