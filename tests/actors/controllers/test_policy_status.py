"""The status of validating policies: each generation is checked once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trio.testing import MockClock

from rewound.actors.versions.features import choose_release
from tests.actors.controllers.control_plane import ControlPlane, open_control_plane

POLICIES = "validatingadmissionpolicies.admissionregistration.cluster.io"
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["*"]}


def spec(expression: str) -> dict[str, Any]:
    return {"matchConstraints": {"resourceRules": [RULE]}, "validations": [{"expression": expression}]}


def found(cluster: ControlPlane) -> dict[str, Any]:
    policy = cluster.get(POLICIES, "p")
    assert policy is not None
    return policy


async def test_each_generation_is_checked_once(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with open_control_plane(tmp_path, release=choose_release("1.36")) as cluster:
        await cluster.create(POLICIES, "p", content={"spec": spec("object.spec.hostNetwork == true")})
        await cluster.wait_until_idle()
        assert found(cluster)["status"] == {"observedGeneration": 1, "typeChecking": {}}
        changed = found(cluster)
        changed["spec"]["validations"][0]["expression"] = "object.nothing == 1"
        await cluster.replace(POLICIES, changed)
        await cluster.wait_until_idle()
        status = found(cluster)["status"]
        assert status["observedGeneration"] == 2
        warning = status["typeChecking"]["expressionWarnings"][0]
        assert warning["fieldRef"] == "spec.validations[0].expression"
        assert warning["warning"].startswith("/v1, Kind=Pod: ERROR: <input>:1:7: undefined field 'nothing'")
        events = cluster.events(POLICIES, "p")
        assert len(events) == 4 and events[-1].user.endswith(":validatingadmissionpolicy-status-controller")
        entries = found(cluster)["metadata"]["managedFields"]
        applied = [(one["manager"], one["subresource"]) for one in entries if one["operation"] == "Apply"]
        assert applied == [("validatingadmissionpolicy-status", "status")]
