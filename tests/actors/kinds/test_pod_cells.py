"""Pod: table cells that summarize the states of containers."""

from __future__ import annotations

from typing import Any

from tests.actors.kinds.definitions import Definitions
from tests.actors.kinds.pods import CONTAINER, pod
from tests.cases import cases

NOW = 1_600_000_000_000_000  # 2020-09-13T12:26:40Z
RESTARTED = {"lastState": {"terminated": {"exitCode": 1, "finishedAt": "2020-09-13T12:25:40Z"}}}
INIT = [{"name": "i", "image": "x"}, {"name": "j", "image": "x"}]


def container(state: Any, *, ready: bool = False, restarts: int = 0, **more: Any) -> dict[str, Any]:
    status = {"name": "c", "image": "", "imageID": "", "ready": ready, "restartCount": restarts}
    return {**status, "state": state, **more}


def cells(kinds: Definitions, status: Any, metadata: Any = None, **spec: Any) -> dict[str, Any]:
    stored = kinds.stored("pods", pod(**spec))
    stored["metadata"].update(metadata or {})
    stored["status"] = kinds.decode("pods", pod(status=status))["status"]
    return {column.name: column.cell(stored, NOW) for column in kinds["pods"].table.columns}


RUNNING = container({"running": {}}, ready=True)


@cases(
    ("status", "text", "ready", "restarts"),
    [
        ({"phase": "Pending"}, "Pending", "0/1", "0"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted", "0/1", "0"),
        ({"phase": "Running", "containerStatuses": [RUNNING]}, "Running", "1/1", "0"),
        (
            {
                "phase": "Running",
                "containerStatuses": [container({"waiting": {"reason": "CrashLoopBackOff"}}, restarts=3)],
            },
            "CrashLoopBackOff",
            "0/1",
            "3",
        ),
        (
            {"phase": "Running", "containerStatuses": [container({"running": {}}, restarts=2, **RESTARTED)]},
            "Running",
            "0/1",
            "2 (60s ago)",
        ),
        (
            {"phase": "Failed", "containerStatuses": [container({"terminated": {"exitCode": 3}})]},
            "ExitCode:3",
            "0/1",
            "0",
        ),
        (
            {
                "phase": "Failed",
                "containerStatuses": [container({"terminated": {"exitCode": 137, "signal": 9}})],
            },
            "Signal:9",
            "0/1",
            "0",
        ),
        (
            {
                "phase": "Running",
                "containerStatuses": [
                    container({"terminated": {"exitCode": 0, "reason": "Completed"}}),
                    RUNNING,
                ],
                "conditions": [{"type": "Ready", "status": "True"}],
            },
            "Running",
            "1/1",
            "0",
        ),
        (
            {
                "phase": "Running",
                "containerStatuses": [
                    container({"terminated": {"exitCode": 0, "reason": "Completed"}}),
                    RUNNING,
                ],
            },
            "NotReady",
            "1/1",
            "0",
        ),
    ],
)
def test_status_ready_and_restarts_summarize_the_containers(
    kinds: Definitions, status: Any, text: str, ready: str, restarts: str
) -> None:
    found = cells(kinds, status)
    assert (found["Status"], found["Ready"], found["Restarts"]) == (text, ready, restarts)


@cases(
    ("states", "text"),
    [
        ([{"terminated": {"exitCode": 0}}, {"running": {}}], "Init:1/2"),
        ([{"waiting": {"reason": "PodInitializing"}}], "Init:0/2"),
        ([{"waiting": {"reason": "ErrImagePull"}}], "Init:ErrImagePull"),
        ([{"terminated": {"exitCode": 1}}], "Init:ExitCode:1"),
        ([{"terminated": {"exitCode": 1, "signal": 9}}], "Init:Signal:9"),
        ([{"terminated": {"exitCode": 1, "reason": "Error"}}], "Init:Error"),
        ([{"terminated": {"exitCode": 0}}, {"terminated": {"exitCode": 0}}], "Running"),
    ],
)
def test_status_is_that_of_the_first_unfinished_init_container(
    kinds: Definitions, states: Any, text: str
) -> None:
    init_statuses = [container(state, restarts=1) for state in states]
    status = {"phase": "Running", "initContainerStatuses": init_statuses, "containerStatuses": [RUNNING]}
    found = cells(kinds, status, initContainers=INIT)
    assert found["Status"] == text
    assert found["Ready"] == ("1/1" if text == "Running" else "0/1")


@cases(("reason", "text"), [("", "Terminating"), ("NodeLost", "Unknown")])
def test_status_of_a_deleted_pod_is_terminating_or_unknown(
    kinds: Definitions, reason: str, text: str
) -> None:
    status = {"phase": "Running", "reason": reason, "containerStatuses": [RUNNING]}
    found = cells(kinds, status, {"deletionTimestamp": "2020-01-01T00:00:00Z"})
    assert (found["Status"], found["Ready"]) == (text, "1/1")


def test_addresses_nodes_and_readiness_gates(kinds: Definitions) -> None:
    empty = cells(kinds, {"phase": "Pending"})
    assert [empty[name] for name in ("IP", "Node", "Nominated Node", "Readiness Gates")] == ["<none>"] * 4
    gates = [{"conditionType": "a.b/c"}, {"conditionType": "a.b/d"}]
    status = {
        "podIP": "10.0.0.1",
        "nominatedNodeName": "m",
        "conditions": [{"type": "a.b/c", "status": "True"}, {"type": "a.b/d", "status": "False"}],
    }
    found = cells(kinds, status, nodeName="n", readinessGates=gates)
    names = ("Name", "IP", "Node", "Nominated Node", "Readiness Gates")
    assert [found[name] for name in names] == ["a", "10.0.0.1", "n", "m", "1/2"]


def test_rows_of_terminated_pods_have_a_condition(kinds: Definitions) -> None:
    conditions = kinds["pods"].table.row_conditions
    assert conditions is not None
    assert conditions({"status": {"phase": "Running"}}) == []
    for phase, text in (("Succeeded", "The pod has completed successfully."), ("Failed", "The pod failed.")):
        assert conditions({"status": {"phase": phase}}) == [
            {"type": "Completed", "status": "True", "reason": phase, "message": text}
        ]


def test_cells_of_pod_templates_and_replication_controllers(kinds: Definitions) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}}
    stored = kinds.stored("podtemplates", {"metadata": {"name": "t"}, "template": template})
    row = [column.cell(stored, NOW) for column in kinds["podtemplates"].table.columns]
    assert row == ["t", "c", "img:1", "a=b"]
    stored = kinds.stored(
        "replicationcontrollers", {"metadata": {"name": "r"}, "spec": {"template": template}}
    )
    row = [column.cell(stored, NOW) for column in kinds["replicationcontrollers"].table.columns]
    assert row == ["r", 1, 0, 0, "256d", "c", "img:1", "a=b"]
