"""An aggregated cluster role has the rules of the roles that its selectors match, whatever users write into it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trio

from rewound.actors.controllers.cluster_role_aggregation import FEW, MANAGER, PAUSES
from tests.actors.access.authorization.policies import rule
from tests.actors.controllers.control_plane import ControlPlane, open_control_plane

ROLES = "clusterroles.rbac.authorization.cluster.io"
PODS, SECRETS, NODES = rule("get", "pods"), rule("list", "secrets"), rule("watch", "nodes")
SELECTED = {"agg": "x"}


def aggregation(**labels: str) -> dict[str, Any]:
    return {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": labels}]}}


async def source(cluster: ControlPlane, name: str, *rules: dict[str, Any], **labels: str) -> None:
    await cluster.create(ROLES, name, content={"rules": list(rules)}, labels=labels or SELECTED)


def rules(cluster: ControlPlane, name: str) -> Any:
    found = cluster.get(ROLES, name)
    assert found is not None
    return found["rules"]


async def test_rules_follow_the_selected_roles_in_the_order_of_names(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await cluster.create(ROLES, "all", content={"rules": [], **aggregation(agg="x")})
        await source(cluster, "b", SECRETS, PODS)
        await source(cluster, "a", PODS)
        await source(cluster, "other", NODES, agg="y")
        await cluster.wait_until_idle()
        assert rules(cluster, "all") == [PODS, SECRETS]
        entries = (cluster.get(ROLES, "all") or {})["metadata"]["managedFields"]
        applied = [one["manager"] for one in entries if one["operation"] == "Apply"]
        assert applied == ["clusterrole-aggregation-controller"]
        await cluster.delete(ROLES, "b")
        await cluster.wait_until_idle()
        assert rules(cluster, "all") == [PODS]
        await cluster.delete(ROLES, "a")
        await cluster.wait_until_idle()
        assert not rules(cluster, "all")


async def test_a_role_that_gains_or_loses_the_label_comes_or_goes(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await cluster.create(ROLES, "all", content={"rules": [], **aggregation(agg="x")})
        await source(cluster, "a", PODS)
        await source(cluster, "b", NODES, agg="y")
        for labels, expected in (({"agg": "x"}, [PODS, NODES]), ({"agg": "z"}, [PODS])):
            changed = cluster.get(ROLES, "b")
            assert changed is not None
            changed["metadata"]["labels"] = labels
            await cluster.replace(ROLES, changed)
            await cluster.wait_until_idle()
            assert rules(cluster, "all") == expected


async def test_rules_that_others_write_are_replaced(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        await source(cluster, "a", PODS)
        await cluster.create(ROLES, "all", content={"rules": [NODES], **aggregation(agg="x")})
        await cluster.wait_until_idle()
        changed = cluster.get(ROLES, "all")
        assert changed is not None and changed["rules"] == [PODS]
        changed["rules"] = [SECRETS]
        await cluster.replace(ROLES, changed)
        await cluster.wait_until_idle()
        assert rules(cluster, "all") == [PODS]
        written = len(cluster.events(ROLES, "all"))
        await cluster.wait_until_idle(3600)
        assert len(cluster.events(ROLES, "all")) == written


async def test_aggregated_roles_may_be_selected_by_others(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_control_plane(tmp_path) as cluster:
        for name, selected in (("admin", "edit"), ("edit", "view")):
            labelled = {"rules": [], **aggregation(agg=selected)}
            await cluster.create(ROLES, name, content=labelled, labels={"agg": name})
        # It also selects itself, which adds nothing.
        await cluster.create(
            ROLES, "view", content={"rules": [], **aggregation(agg="view")}, labels={"agg": "view"}
        )
        await source(cluster, "pods", PODS, agg="view")
        await cluster.wait_until_idle()
        assert [rules(cluster, name) for name in ("view", "edit", "admin")] == [[PODS]] * 3


async def test_a_start_finds_what_changed_without_the_controller(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        await cluster.create(ROLES, "all", content={"rules": [], **aggregation(agg="x")})
        await source(cluster, "a", PODS)
        assert not rules(cluster, "all")
    async with open_control_plane(tmp_path) as cluster:
        await cluster.wait_until_idle()
        assert rules(cluster, "all") == [PODS]


async def test_many_selected_roles(tmp_path: Path) -> None:
    """Threads parse the large role, and combine the rules of the others."""
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        await cluster.create(ROLES, "all", content={"rules": [], **aggregation(agg="x")})
        names = " ".join(f"object-{number}" for number in range(200))
        wanted = [rule("get", f"r{number:02}", names=names) for number in range(FEW + 8)]
        for number, one in enumerate(wanted):
            await source(cluster, f"s{number:02}", one, PODS)
        cluster.start_controllers()
        await rules_of_all(cluster, [wanted[0], PODS, *wanted[1:]])
        await cluster.delete(ROLES, "s00")
        await rules_of_all(cluster, [wanted[1], PODS, *wanted[2:]])


async def rules_of_all(cluster: ControlPlane, wanted: list[dict[str, Any]]) -> None:
    """Waits in real time, because threads are working."""
    with trio.fail_after(60):
        while rules(cluster, "all") != wanted:
            await trio.sleep(0.01)


async def test_role_whose_aggregation_takes_long_is_aggregated_after_a_pause(tmp_path: Path) -> None:
    written: list[float] = []

    async def write_slowly() -> None:
        await trio.sleep(0.03)
        written.append(trio.current_time())

    async with open_control_plane(tmp_path, controllers=False) as cluster:
        await cluster.create(ROLES, "all", content={"rules": [], **aggregation(agg="x")})
        for number in range(FEW):
            await source(cluster, f"s{number:02}", PODS)
        cluster.before_write(MANAGER, write_slowly)
        cluster.start_controllers()
        await rules_of_all(cluster, [PODS])
        await source(cluster, "t", NODES)
        await rules_of_all(cluster, [PODS, NODES])
        assert trio.current_time() - written[0] >= PAUSES * 0.03
