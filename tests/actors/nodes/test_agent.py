"""The log of a simulated container and the output of commands in it come from annotations of its pod."""

from __future__ import annotations

import pytest

from rewound.actors.errors import BadRequest
from rewound.actors.kinds.values.times import micros_of
from rewound.actors.messages import Object
from rewound.actors.nodes.agent import CANNOT_EXECUTE, CommandResult, log_of, run_command
from tests.cases import cases

STARTED = "2023-11-14T22:13:20Z"
NOW = micros_of(STARTED) + 60_000_000


def pod(state: Object | None = None, last: Object | None = None, **annotations: str) -> Object:
    running = {"running": {"startedAt": STARTED}}
    container = {"name": "c", "state": running if state is None else state, "lastState": last or {}}
    return {
        "metadata": {
            "name": "p",
            "namespace": "default",
            "annotations": {f"sim/{key}": value for key, value in annotations.items()},
        },
        "spec": {"nodeName": "n"},
        "status": {"containerStatuses": [container]},
    }


@cases(
    "options, log",
    [
        ({}, b"one\ntwo\nthree\n"),
        ({"tailLines": 1}, b"three\n"),
        ({"tailLines": 0}, b""),
        ({"tailLines": 9}, b"one\ntwo\nthree\n"),
        ({"limitBytes": 5}, b"one\nt"),
        ({"timestamps": True, "tailLines": 1}, b"2023-11-14T22:13:20Z three\n"),
        ({"sinceSeconds": 61}, b"one\ntwo\nthree\n"),
        ({"sinceSeconds": 59}, b""),
        ({"sinceTime": "2023-11-14T22:13:21Z"}, b""),
    ],
)
def test_log_is_an_annotation_as_the_options_ask_for_it(options: Object, log: bytes) -> None:
    assert log_of(pod(log="one\ntwo\nthree"), "c", options, NOW) == log


def test_log_without_an_annotation_says_that_the_container_is_simulated() -> None:
    assert b"container c of pod default/p is simulated on n" in log_of(pod(), "c", {}, NOW)
    assert log_of(pod(log="all", **{"log.c": "own"}), "c", {}, NOW) == b"own\n"


def test_log_of_a_container_that_has_not_started_is_refused() -> None:
    waiting = pod({"waiting": {"reason": "PodInitializing"}})
    with pytest.raises(BadRequest, match='container "c" in pod "p" is waiting to start: PodInitializing'):
        log_of(waiting, "c", {}, NOW)
    with pytest.raises(BadRequest, match='previous terminated container "c" in pod "p" not found'):
        log_of(pod(), "c", {"previous": True}, NOW)
    crashed = pod(
        {"waiting": {"reason": "CrashLoopBackOff"}}, {"terminated": {"startedAt": STARTED}}, log="x"
    )
    assert log_of(crashed, "c", {}, NOW) == log_of(crashed, "c", {"previous": True}, NOW) == b"x\n"


def test_commands_print_an_annotation_or_say_that_nothing_runs() -> None:
    assert run_command(pod(exec="total 0"), "c") == CommandResult("total 0\n", "", 0)
    assert run_command(pod(exec="no", **{"exec-exit-code": "3"}), "c") == CommandResult("no\n", "", 3)
    assert run_command(pod(**{"exec-exit-code": "3"}), "c") == CommandResult("", "", 3)
    nothing = run_command(pod(), "c")
    assert (nothing.output, nothing.exit_code) == ("", CANNOT_EXECUTE) and "sim/exec" in nothing.errors
