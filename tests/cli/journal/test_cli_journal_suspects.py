"""`rewound suspects` with a data folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rewound import Rewound
from tests.gateway.journal_commands import Step, delete, put, run_journal, write_history


def pod(status: dict[str, Any]) -> Step:
    spec = {"containers": [{"name": "main", "envFrom": [{"configMapRef": {"name": "settings"}}]}]}
    return Step("web", {"spec": spec, "status": status}, type_name="pods", user="kubelet")


RUNNING = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
MISSING = {"reason": "CreateContainerConfigError", "message": 'configmap "settings" not found'}
WAITING = {"phase": "Pending", "containerStatuses": [{"name": "main", "state": {"waiting": MISSING}}]}
STEPS = [
    put("settings", {"color": "blue"}),
    put("other", {"color": "blue"}),
    pod(RUNNING),
    delete("settings", user="mallory"),
    put("other", {"color": "red"}),
    pod(WAITING),
]


def test_the_cause_with_its_reasons(tmp_path: Path) -> None:
    write_history(tmp_path, STEPS)
    result = run_journal("suspects", "pod/web", "--data-dir", tmp_path)
    assert result.code == 0, result.err
    assert "pods default/web: CreateContainerConfigError since" in result.lines[0]
    assert "(version 6); before: Running" in result.lines[0]
    assert 'CreateContainerConfigError configmap "settings" not found' in result.lines[1]
    (cause,) = [line for line in result.lines if line.startswith("1. ")]
    assert cause.startswith("1. configmaps default/settings was deleted at ")
    assert cause.endswith("(version 4) by mallory with kubectl")
    assert "pod web reads it; right before it broke; the messages name it" in result.out
    assert "other" not in result.out.replace("other changes", "")
    document = run_journal("suspects", "pod/web", "-o", "json", "--data-dir", tmp_path).document
    assert document["items"][0]["name"] == "settings"
    assert document["broke"]["version"] == "6"


def test_nothing_is_broken(tmp_path: Path) -> None:
    write_history(tmp_path, STEPS)
    result = run_journal("suspects", "pod/web", "--at", "5", "--data-dir", tmp_path)
    assert "nothing in the journal says that it is broken" in result.lines[0]
    result = run_journal("suspects", "cm/other", "--since", "5", "--data-dir", tmp_path)
    assert "no change before it is a suspect" in result.out


def test_errors(tmp_path: Path) -> None:
    write_history(tmp_path, STEPS)
    never = run_journal("suspects", "pod/wbe", "--data-dir", tmp_path)
    assert (never.code, "did you mean web?" in never.err) == (1, True)
    order = run_journal("suspects", "pod/web", "--since", "5", "--at", "4", "--data-dir", tmp_path)
    assert (order.code, "--since" in order.err) == (2, True)
    assert run_journal("suspects", "pod/web", "--limit", "0", "--data-dir", tmp_path).code == 2


def test_a_server_is_asked(rewound: Rewound) -> None:
    core = "/api/v1/namespaces/default"
    rewound.request("POST", f"{core}/configmaps", {"metadata": {"name": "settings"}})
    spec = {
        "containers": [{"name": "main", "image": "web", "envFrom": [{"configMapRef": {"name": "settings"}}]}]
    }
    rewound.request("POST", f"{core}/pods", {"metadata": {"name": "web"}, "spec": spec})
    running = {**rewound.request("GET", f"{core}/pods/web"), "status": RUNNING}
    rewound.request("PUT", f"{core}/pods/web/status", running)
    rewound.request("DELETE", f"{core}/configmaps/settings")
    waiting = {**rewound.request("GET", f"{core}/pods/web"), "status": WAITING}
    rewound.request("PUT", f"{core}/pods/web/status", waiting)
    result = run_journal("suspects", "pod/web", "--kubeconfig", rewound.kubeconfig)
    assert result.code == 0, result.err
    (cause,) = [line for line in result.lines if line.startswith("1. ")]
    assert cause.startswith("1. configmaps default/settings was deleted at ")
    never = run_journal("suspects", "pod/other", "--kubeconfig", rewound.kubeconfig)
    assert (never.code, "no version of pods other" in never.err) == (1, True)
