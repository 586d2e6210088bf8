"""`rewound chaos`: applies a file, prints what happens, and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from rewound.gateway.settings.settings import ControllerSettings
from tests.client.command import runner
from tests.gateway.https import served_securely
from tests.settling import settled

PLAN = """
apiVersion: v1
kind: ConfigMap
metadata: {name: beside}
---
apiVersion: sim.rewound/v1alpha1
kind: Chaos
metadata: {name: day}
spec:
  faults:
  - {name: down, stopNodes: {choose: 1}}
  - {name: slow, lagNodes: {seconds: 1}}
"""


async def test_faults_are_printed_and_end_with_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = runner(tmp_path, capsys, monkeypatch)
    plan = tmp_path / "day.yaml"
    plan.write_text(PLAN)
    async with served_securely(dialect="kubernetes", controllers=ControllerSettings(nodes=1)) as api:
        admin = ("--kubeconfig", api.settings.kubeconfig)
        await settled()  # the kind and the node exist then
        ended = await trio.to_thread.run_sync(run, "chaos", plan, *admin)
        assert (ended.code, ended.err) == (0, "")
        assert sorted(ended.out.splitlines()) == [
            "lagNodes day/slow began: node-0",
            "stopNodes day/down began: node-0",
        ]
        node = (await api.ask("GET", "/api/v1/nodes/node-0")).expect(200)
        assert not {"sim/stopped", "sim/lag"} & node["metadata"]["annotations"].keys()
        (await api.ask("GET", "/api/v1/namespaces/default/configmaps/beside")).expect(200)

        plan.write_text(PLAN.replace("choose: 1", "choose: most"))
        refused = await trio.to_thread.run_sync(run, "chaos", plan, *admin)
        assert refused.code == 1 and "chaos/day: spec.faults[0].stopNodes.choose: 'most'" in refused.err
        for wrong, why in (
            ("{name: down}", "chaos/day: spec.faults[0]: has to have one of stopNodes"),
            (
                "{name: down, every: 2s, for: 1s, times: -1, stopNodes: {}}",
                "spec.faults[0].times: has to be 1 or",
            ),
            (
                "{name: api, failRequests: {rules: [{foo: 1}]}}",
                "chaos/day: api: failRequests: rules[0].foo: is not",
            ),
        ):
            plan.write_text(
                PLAN.replace("{name: down, stopNodes: {choose: 1}}", wrong).replace("beside", "other")
            )
            refused = await trio.to_thread.run_sync(run, "chaos", plan, *admin)
            assert refused.code == 1 and why in refused.err
        plan.write_text(PLAN.replace("metadata: {name: day}", ""))
        refused = await trio.to_thread.run_sync(run, "chaos", plan, *admin)
        assert refused.code == 1 and "a Chaos has no metadata.name; give it one" in refused.err
        (await api.ask("GET", "/api/v1/namespaces/default/configmaps/other")).expect(404)

        plan.write_text(PLAN)
        detached = await trio.to_thread.run_sync(run, "chaos", plan, "--detach", *admin)
        assert detached.out == "chaos/day applied\n"
