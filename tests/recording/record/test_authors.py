"""Finds the request of an audit log that made a change, where the log has no response: certain matches first, guesses
marked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from rewound.actors.kinds.built_in import built_in
from rewound.actors.names import NAMES
from rewound.cli.main import main
from rewound.journal.log import Journal
from rewound.journal.records import Event
from rewound.recording.record import authors
from rewound.recording.record.attribution import Comparison, Writer
from rewound.recording.record.authors import Authors
from rewound.recording.record.changes import change_of
from rewound.recording.record.kinds import RecordedKind, kind_of
from rewound.recording.record.refused import RefusedRequests
from rewound.recording.record.requests import requests_in
from rewound.recording.record.writer import RecordingWriter
from tests.recording.record.test_import_command import audit, config_map, gone

_CATALOG = built_in(NAMES["kubernetes"])
PLACE = ("", "v1", "configmaps")


def kind() -> RecordedKind:
    found = kind_of(PLACE, "ConfigMap", True, _CATALOG, _CATALOG.find(*PLACE))
    assert found is not None
    return found


class Joined:
    """Requests and changes in the order of the test, and the events that they become."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.journal = Journal.open(path / "journal", dialect="kubernetes")
        self.journal.register_types(["configmaps"])
        self.authors = Authors(
            lambda group, plural: plural, lambda _: True, RefusedRequests(path), lambda: 0.0, lambda: 0
        )
        self.writer = RecordingWriter(self.journal, self.authors)

    def request(self, user: str, verb: str, second: int, agent: str = "kubectl/v1", **more: Any) -> None:
        event = audit(verb, second, **{"user": {"username": user}, "userAgent": agent, **more})
        for one in requests_in(orjson.dumps(event)):
            self.authors.add(one)

    def change(self, version: int, text: str, *, removed: bool = False, **metadata: Any) -> None:
        document = config_map(version, text, **metadata)
        self.writer.write([change_of(kind(), document, version, removed=removed, with_secrets=True)])

    def events(self) -> list[Event]:
        with self.journal.read() as view:
            return list(view.all_events(0))

    def users(self) -> list[tuple[str, str, bool]]:
        return [(one.user, one.verb, "user guessed" in one.reason) for one in self.events()]


@pytest.fixture
def joined(tmp_path: Path) -> Joined:
    return Joined(tmp_path)


def managed(manager: str, second: int) -> list[dict[str, Any]]:
    time = f"2026-11-17T10:00:{second:02d}Z"
    return [{"manager": manager, "operation": "Update", "time": time, "fieldsV1": {"f:data": {}}}]


def sent(version: int) -> dict[str, Any]:
    place = {"resource": "configmaps", "namespace": "shop", "name": "web", "apiVersion": "v1"}
    return {**place, "resourceVersion": str(version)}


def test_exact_signs_without_responses(joined: Joined) -> None:
    joined.request("alice", "create", 1, code=201)
    joined.request("carol", "update", 3, objectRef=sent(20))
    joined.request("bob", "update", 2, objectRef=sent(10))
    joined.request("dave", "delete", 4, **gone("uid-web"))
    joined.change(10, "one")
    joined.change(20, "two")
    joined.change(30, "three")
    joined.change(40, "three", removed=True)
    assert joined.users() == [
        ("alice", "create", False),
        ("bob", "update", False),
        ("carol", "update", False),
        ("dave", "delete", False),
    ]


def test_managers_decide_and_what_is_left_is_a_guess(joined: Joined) -> None:
    joined.change(10, "one", managedFields=managed("kubectl", 1))
    joined.request("alice", "patch", 2, "kubectl/v1")
    joined.request("bob", "patch", 2, "helm/v3")
    joined.change(20, "two", managedFields=[*managed("kubectl", 1), *managed("helm", 2)])
    joined.request("carol", "patch", 3, "kubectl/v1")
    joined.change(30, "three", managedFields=[*managed("kubectl", 3), *managed("helm", 2)])
    joined.change(40, "four", managedFields=[*managed("kubectl", 9), *managed("helm", 2)])
    joined.change(50, "five", managedFields=[*managed("kubectl", 11), *managed("helm", 2)])
    assert joined.users() == [
        ("recorded", "create", False),
        ("bob", "patch", False),  # the only one with helm's manager
        ("alice", "patch", True),  # or carol
        ("carol", "patch", True),  # two users have kubectl's manager
        ("recorded", "update", False),
    ]


def test_a_change_is_compared_once(joined: Joined) -> None:
    """A recorder compares large objects in a thread; nothing here may compare, or parse, them again."""
    joined.change(10, "one", managedFields=managed("kubectl", 1))
    joined.request("alice", "patch", 2, "kubectl/v1")
    joined.request("bob", "patch", 2, "helm/v3")
    document = config_map(20, "two", managedFields=managed("kubectl", 2))
    change = change_of(kind(), document, 20, removed=False, with_secrets=True)
    change.comparison = Comparison(Writer("helm", 2_000_000), frozenset({"data"}))
    joined.writer.write([change])
    (_, event) = joined.events()
    assert (event.user, event.manager) == ("bob", "helm")


def test_user_of_a_manager_that_is_not_remembered_is_a_guess(
    joined: Joined, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authors, "MOST_PENDING", 1)
    joined.change(10, "one", managedFields=managed("other", 1))
    joined.request("alice", "patch", 2, "helm/v3")
    joined.change(20, "two", managedFields=[*managed("other", 1), *managed("helm", 2)])
    joined.request("bob", "patch", 3, "kubectl/v1")
    joined.change(30, "three", managedFields=[*managed("kubectl", 3), *managed("helm", 2)])
    assert joined.users()[1:] == [("alice", "patch", False), ("bob", "patch", True)]


def test_who_removed_the_last_finalizer(joined: Joined) -> None:
    held = {"finalizers": ["a/b"], "deletionTimestamp": "2026-11-17T10:00:02Z"}
    joined.change(10, "one", finalizers=["a/b"])
    marked = config_map(20, "one", **held)
    joined.request("alice", "delete", 2, responseObject=marked)
    joined.change(20, "one", **held)
    ended = config_map(20, "one", deletionTimestamp=held["deletionTimestamp"])
    joined.request("controller", "update", 3, responseObject=ended)
    joined.change(30, "one", removed=True, deletionTimestamp=held["deletionTimestamp"])
    assert joined.users()[1:] == [("alice", "delete", False), ("controller", "update", False)]


def test_a_write_that_changed_nothing_is_not_the_author(joined: Joined) -> None:
    joined.request("alice", "create", 1, code=201, responseObject=config_map(10, "one"))
    joined.request("bob", "update", 2, responseObject=config_map(10, "one"))
    joined.request("carol", "update", 3, responseObject=config_map(20, "two"))
    joined.change(10, "one")
    joined.change(20, "two")
    joined.authors.close()
    assert joined.users() == [("alice", "create", False), ("carol", "update", False)]
    assert joined.authors.statistics.unused == 0


def test_a_change_before_the_first_request_of_the_log_waits_for_it(joined: Joined) -> None:
    change = change_of(kind(), config_map(10, "one"), 10, removed=False, with_secrets=True)
    assert not joined.authors.is_ready(change)
    joined.request("alice", "create", 1, code=201, responseObject=config_map(10, "one"))
    assert joined.authors.is_ready(change)


def test_what_a_later_list_shows_waits_for_the_log(joined: Joined) -> None:
    """The first objects of a new kind are listed before the log has their requests."""
    changes = [
        change_of(kind(), config_map(version, "one"), version, removed=False, with_secrets=True)
        for version in (10, 30)
    ]
    for one in changes:
        one.listed = True
    assert [joined.authors.is_ready(one) for one in changes] == [True, True]
    joined.authors.began = 20
    assert [joined.authors.is_ready(one) for one in changes] == [True, False]
    joined.request("alice", "create", 1, code=201, responseObject=config_map(30, "one"))
    assert joined.authors.is_ready(changes[1])
    joined.writer.write([changes[1]])
    assert joined.users() == [("alice", "create", False)]


def test_guessed_users_are_marked(joined: Joined, capsys: pytest.CaptureFixture[str]) -> None:
    joined.change(10, "one")
    joined.request("alice", "patch", 2)
    joined.change(20, "two")
    joined.journal.close()
    folder = ["--data-dir", str(joined.path)]
    assert main(["log", *folder, "-o", "json"]) == 0
    last = orjson.loads(capsys.readouterr().out.splitlines()[-1])
    assert (last["user"], last["userGuessed"], "guessed" in last) == ("alice", True, False)
    for command in (["log"], ["history", "cm", "web", "-n", "shop"], ["blame", "cm", "web", "-n", "shop"]):
        assert main([*command, *folder]) == 0
        assert "alice (guessed)" in capsys.readouterr().out


def test_refused_requests_stand_between_events(joined: Joined, capsys: pytest.CaptureFixture[str]) -> None:
    joined.request("alice", "create", 1, code=201)
    joined.request("mallory", "delete", 2, responseStatus={"code": 403, "message": "no delete\x1b"})
    joined.request("bob", "update", 3, objectRef=sent(10))
    joined.change(10, "one")
    joined.change(20, "two")
    joined.authors.close()
    joined.journal.close()
    folder = ["--data-dir", str(joined.path)]
    assert main(["log", *folder]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [("alice" in one, "mallory" in one, "bob" in one) for one in lines] == [
        (True, False, False),
        (False, True, False),
        (False, False, True),
    ]
    assert "refused: 403 no delete" in lines[1] and "\x1b" not in lines[1]
    for flags, count in (
        (["--user", "mallory"], 1),
        (["--kind", "pods"], 0),
        (["--limit", "1"], 1),
        (["--reverse"], 3),
        (["--until", "10"], 1),
    ):
        assert main(["log", *folder, *flags, "-o", "json"]) == 0
        assert len(capsys.readouterr().out.splitlines()) == count, flags
