"""Tables have the columns and texts of each version."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import choose_release
from tests.cases import cases


def definition(version: str, group: str, plural: str) -> Definition:
    catalog = built_in(KUBERNETES, choose_release(version))
    (found, *_) = (one for one in catalog.definitions if (one.group, one.plural) == (group, plural))
    return found


def columns(version: str, group: str, plural: str) -> list[str]:
    return [one.name for one in definition(version, group, plural).table.columns]


@cases(
    ("group", "plural", "column", "first", "last"),
    [
        ("", "persistentvolumeclaims", "VolumeAttributesClass", "1.29", "1.36"),
        ("", "persistentvolumes", "VolumeAttributesClass", "1.29", "1.36"),
        ("batch", "cronjobs", "Timezone", "1.30", "1.36"),
        ("batch", "jobs", "Status", "1.30", "1.36"),
        ("scheduling.k8s.io", "priorityclasses", "PreemptionPolicy", "1.32", "1.36"),
        ("", "serviceaccounts", "Secrets", "1.25", "1.34"),
    ],
)
def test_column_is_in_its_versions(group: str, plural: str, column: str, first: str, last: str) -> None:
    for version in ("1.25", "1.28", "1.29", "1.30", "1.31", "1.32", "1.34", "1.35", "1.36"):
        expected = float(first) <= float(version) <= float(last)
        assert (column in columns(version, group, plural)) == expected, version


def test_age_of_quotas_moved() -> None:
    assert columns("1.32", "", "resourcequotas") == ["Name", "Age", "Request", "Limit"]
    assert columns("1.33", "", "resourcequotas") == ["Name", "Request", "Limit", "Age"]


def container(name: str, **state: Any) -> dict[str, Any]:
    running = {"state": {"running": {}}, "lastState": {}, "ready": True, "restartCount": 0, "started": True}
    return {"name": name, **running, **state}


def pod_cells(version: str, pod: dict[str, Any]) -> list[Any]:
    return [one.cell(pod, 0) for one in definition(version, "", "pods").table.columns[1:4]]


def test_sidecars_count_as_containers_since_1_28() -> None:
    pod = {
        "metadata": {},
        "spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "s", "restartPolicy": "Always"}]},
        "status": {
            "phase": "Running",
            "initContainerStatuses": [container("s", restartCount=2)],
            "containerStatuses": [container("a")],
        },
    }
    assert pod_cells("1.27", pod) == ["0/1", "Init:0/1", "2"]
    assert pod_cells("1.28", pod) == ["2/2", "Running", "2"]


def test_gated_pod_is_named_so_since_1_26() -> None:
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    pod = {
        "metadata": {},
        "spec": {"containers": [{"name": "a"}]},
        "status": {"phase": "Pending", "conditions": [gated]},
    }
    assert pod_cells("1.25", pod)[1] == "Pending"
    assert pod_cells("1.26", pod)[1] == "SchedulingGated"


def test_ended_pod_is_not_terminating_since_1_31() -> None:
    ended = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    pod = {
        "metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"},
        "spec": {"containers": [{"name": "a"}]},
        "status": {"phase": "Succeeded", "containerStatuses": [container("a", state=ended, ready=False)]},
    }
    assert pod_cells("1.30", pod)[1] == "Terminating"
    assert pod_cells("1.31", pod)[1] == "Completed"


def test_error_of_one_container_is_printed_since_1_35() -> None:
    completed = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    failed = {"terminated": {"exitCode": 1, "reason": "Error"}}
    pod = {
        "metadata": {},
        "spec": {"containers": [{"name": "a"}, {"name": "b"}]},
        "status": {
            "phase": "Failed",
            "containerStatuses": [
                container("a", state=completed, ready=False),
                container("b", state=failed, ready=False),
            ],
        },
    }
    assert pod_cells("1.34", pod)[1] == "Completed"
    assert pod_cells("1.35", pod)[1] == "Error"


def test_targets_name_their_resource_since_1_30() -> None:
    target = {"type": "Utilization", "averageUtilization": 50}
    autoscaler = {
        "spec": {"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]},
        "status": {},
    }
    for version, expected in (("1.29", "<unknown>/50%"), ("1.30", "cpu: <unknown>/50%")):
        (column,) = (
            one
            for one in definition(version, "autoscaling", "horizontalpodautoscalers").table.columns
            if one.name == "Targets"
        )
        assert column.cell(autoscaler, 0) == expected
