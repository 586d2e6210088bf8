"""Pod: the status subresource."""

from __future__ import annotations

from typing import Any

from tests.actors.kinds.definitions import Definitions, replace
from tests.actors.kinds.pods import QUALIFIED, SUBDOMAIN, pod, update_causes
from tests.cases import cases


def status_causes(kinds: Definitions, **status: Any) -> list[tuple[str, str]]:
    return update_causes(kinds, pod(), pod(status=status), "status")


def test_status_update_keeps_spec_and_owner_references(kinds: Definitions) -> None:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}
    sent = pod(metadata={"ownerReferences": [owner]}, hostname="h", status={"phase": "Running"})
    new, causes = kinds.update("pods", pod(), sent, "status")
    assert causes == []
    assert "ownerReferences" not in new["metadata"] and "hostname" not in new["spec"]
    assert new["status"] == {"phase": "Running"}


@cases(
    ("status", "causes"),
    [
        ({"conditions": [{"type": "Ready", "status": "True"}, {"type": "a.b/c", "status": "x"}]}, []),
        (
            {"conditions": [{"type": "a b", "status": "True"}]},
            [("metadata.conditions[0].Type", f'Invalid value: "a b": {QUALIFIED}')],
        ),
        (
            {"nominatedNodeName": "N"},
            [("status.nominatedNodeName", f'Invalid value: "N": {SUBDOMAIN}')],
        ),
        ({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}, []),
        (
            {"podIPs": [{"ip": "x"}]},
            [
                (
                    "status.podIPs[0]",
                    'Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
                )
            ],
        ),
        (
            {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.1"}]},
            [
                (
                    "status.podIPs",
                    'Invalid value: [{"ip":"10.0.0.1"},{"ip":"10.0.0.1"}]: may specify no more than one IP '
                    "for each IP family",
                ),
                ("status.podIPs[1]", 'Duplicate value: {"ip":"10.0.0.1"}'),
            ],
        ),
        (
            {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "x"}]},
            [
                (
                    "status.podIPs[1]",
                    'Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
                ),
                (
                    "status.podIPs",
                    "Internal error: failed to check for dual stack with error:ip <nil> is invalid",
                ),
                (
                    "status.podIPs",
                    'Invalid value: [{"ip":"10.0.0.1"},{"ip":"x"}]: may specify no more than one IP '
                    "for each IP family",
                ),
            ],
        ),
    ],
)
def test_status_fields_are_validated(kinds: Definitions, status: Any, causes: list[tuple[str, str]]) -> None:
    assert status_causes(kinds, **status) == causes


SUCCEEDED = {"terminated": {"exitCode": 0}}
FAILED = {"terminated": {"exitCode": 1}}


@cases(
    ("policy", "state", "is_final"),
    [
        ("Always", SUCCEEDED, False),
        ("OnFailure", FAILED, False),
        ("OnFailure", SUCCEEDED, True),
        ("Never", FAILED, True),
        ("Never", {"running": {}}, False),
    ],
)
@cases("part", ["containerStatuses", "initContainerStatuses"])
def test_terminated_container_stays_terminated_unless_it_restarts(
    kinds: Definitions, part: str, policy: str, state: Any, is_final: bool
) -> None:
    def container_status(state: Any) -> dict[str, Any]:
        status = {"name": "c", "state": state, "ready": False, "restartCount": 0, "image": "", "imageID": ""}
        return {part: [status]}

    old = kinds.stored("pods", pod(restartPolicy=policy))
    old["status"] = kinds.decode("pods", pod(status=container_status(state)))["status"]
    new = kinds.decode("pods", pod(status=container_status({"waiting": {}})))
    _, causes = replace(kinds["pods"], new, old, "status")
    text = "Forbidden: may not be transitioned to non-terminated state"
    expected = [(f"status.{part}[0].state", text)] if is_final else []
    assert causes == expected


def test_missing_times_of_conditions_are_null(kinds: Definitions) -> None:
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    decoded = kinds.decode("pods", pod(status=status))["status"]
    assert decoded["conditions"] == [
        {"type": "Ready", "status": "True", "lastProbeTime": None, "lastTransitionTime": None}
    ]
