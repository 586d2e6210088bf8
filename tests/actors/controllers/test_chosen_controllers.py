"""Only the selected controllers run, plus those that belong to the server itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewound.actors.controllers.built_in import controllers
from tests.actors.controllers.control_plane import open_control_plane
from tests.actors.controllers.signing_requests import controller_context

OWN = {"flow control controller", "event expiry", "API service registration controller"}


@pytest.mark.parametrize(
    ("name", "controller"),
    [
        ("bootstrapsigner", "bootstrap signer"),
        ("clusterrole-aggregation", "cluster role aggregation controller"),
        ("csrapproving", "certificate approving controller"),
        ("csrcleaner", "certificate cleaning controller"),
        ("csrsigning", "certificate signing controller"),
        ("endpoint-cleanup", "endpoints cleanup"),
        ("ephemeral-volume", "ephemeral volume controller"),
        ("garbagecollector", "garbage collector"),
        ("namespace", "namespace controller"),
        ("podgc", "pod garbage collector"),
        ("pv-protection", "PV protection controller"),
        ("pvc-protection", "PVC protection controller"),
        ("resourcequota", "resource quota controller"),
        ("serviceaccount", "service account controller"),
        ("tokencleaner", "token cleaner"),
    ],
)
async def test_one_controller_can_be_chosen(tmp_path: Path, name: str, controller: str) -> None:
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        own = {loop.name for loop in controllers(controller_context(cluster, enabled=frozenset()))}
        chosen = {loop.name for loop in controllers(controller_context(cluster, enabled=frozenset({name})))}
        assert chosen - own == {controller} and own == OWN
