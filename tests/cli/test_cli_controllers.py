"""--controllers selects controllers by the names of v1.25."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewound.actors.controllers.built_in import controllers
from rewound.actors.versions.features import choose_release
from rewound.gateway.settings.checks import SettingsError
from rewound.gateway.settings.settings import (
    CONTROLLERS,
    ENDPOINT_CLEANUP,
    WITH_BOOTSTRAP_TOKENS,
    WORKLOAD_CONTROLLERS,
    WorkloadSettings,
)
from rewound.server.flags.parser import parse_flags
from tests.actors.controllers.control_plane import open_control_plane
from tests.actors.controllers.signing_requests import controller_context
from tests.cases import cases

DEFAULT = frozenset(CONTROLLERS)
ALL = DEFAULT - {ENDPOINT_CLEANUP} | frozenset(WORKLOAD_CONTROLLERS)


def enabled(*flags: str, dialect: str = "kubernetes") -> frozenset[str]:
    settings = parse_flags([f"--dialect={dialect}", *flags])[0]
    return settings.controllers.enabled_controllers(settings.rules)


def test_those_of_an_api_server_run_by_default_but_those_of_bootstrap_tokens() -> None:
    assert enabled() == enabled("--controllers=default") == DEFAULT - {"bootstrapsigner", "tokencleaner"}
    assert enabled("--enable-bootstrap-token-auth") == DEFAULT
    assert enabled("--controllers=*") == ALL - {"bootstrapsigner", "tokencleaner"}
    assert WITH_BOOTSTRAP_TOKENS == ("bootstrapsigner", "tokencleaner")


def test_publisher_runs_by_its_rule_or_if_chosen() -> None:
    one = "root-ca-cert-publisher"
    assert enabled() - enabled(dialect="cluster") == {one}
    assert enabled("--rule=root-certificate=published", dialect="cluster") == enabled()
    assert enabled("--rule=root-certificate=absent") == enabled() - {one}
    assert enabled(f"--controllers=default,{one}", dialect="cluster") == enabled()
    assert enabled(f"--controllers={one}", dialect="cluster") == {one}
    assert one not in enabled(f"--controllers=*,-{one}")


async def test_every_name_is_that_of_a_controller(tmp_path: Path) -> None:
    newest = choose_release(
        "1.36", "GenericWorkload=true,PodCertificateRequest=true,StorageVersionMigrator=true"
    )  # has all of them
    async with open_control_plane(tmp_path, controllers=False, release=newest) as cluster:
        more = {"issuer": object(), "publishes_certificate": True, "release": newest}
        own = len(
            controllers(controller_context(cluster, enabled=frozenset(), **more))
        )  # of the server itself
        assert len(controllers(controller_context(cluster, **more))) == len(CONTROLLERS) + own
        for name in CONTROLLERS:
            one = controller_context(cluster, enabled=frozenset({name}), **more)
            assert len(controllers(one)) == own + 1, name


async def test_event_expiry_can_be_turned_off(tmp_path: Path) -> None:
    assert parse_flags([])[0].controllers.event_ttl == 3600
    kept = parse_flags(["--event-ttl=0"])[0].controllers.event_ttl
    assert parse_flags(["--event-ttl=90m"])[0].controllers.event_ttl == 5400
    async with open_control_plane(tmp_path, controllers=False) as cluster:
        context = controller_context(cluster, event_ttl=kept)
        assert "event expiry" not in {loop.name for loop in controllers(context)}


@cases(
    ("flags", "expected"),
    [
        (["--controllers=namespace"], {"namespace"}),
        (["--controllers=namespace,endpoint"], {"namespace", "endpoint"}),
        (["--controllers=namespace", "--controllers=endpoint"], {"namespace", "endpoint"}),
        (["--controllers="], set()),
        (["--controllers=-namespace", "--enable-bootstrap-token-auth"], ALL - {"namespace"}),
        (["--controllers=default,-namespace", "--enable-bootstrap-token-auth"], DEFAULT - {"namespace"}),
        (["--controllers=*,-namespace", "--enable-bootstrap-token-auth"], ALL - {"namespace"}),
        (["--controllers=-namespace,*", "--enable-bootstrap-token-auth"], ALL - {"namespace"}),
        (["--controllers=*,tokencleaner"], ALL - {"bootstrapsigner"}),
        (["--controllers=*,-tokencleaner", "--enable-bootstrap-token-auth"], ALL - {"tokencleaner"}),
        (["--controllers=endpoint,-endpoint"], {"endpoint"}),
        (["--controllers=endpoints-controller,job-controller"], {"endpoint", "job"}),
        (
            ["--controllers=-pod-garbage-collector-controller,*", "--enable-bootstrap-token-auth"],
            ALL - {"podgc"},
        ),
        (
            ["--controllers=taint-eviction-controller,node-lifecycle-controller"],
            {"nodelifecycle", "taint-eviction-controller"},
        ),
        (["--controllers=node-ipam-controller"], {"nodeipam"}),
        (
            ["--controllers=default,endpoint", "--enable-bootstrap-token-auth"],
            DEFAULT - {ENDPOINT_CLEANUP} | {"endpoint"},
        ),
        (["--controllers=default,-endpoint", "--enable-bootstrap-token-auth"], DEFAULT - {ENDPOINT_CLEANUP}),
        (["--controllers=*,-endpoint", "--enable-bootstrap-token-auth"], ALL - {"endpoint"}),
    ],
)
def test_names_stars_and_exceptions(flags: list[str], expected: set[str]) -> None:
    assert enabled(*flags) == expected


@cases("wrong", ["deployments-controller", "-nonsense", "**", "garbage collector"])
def test_unknown_names_are_refused_with_the_known_ones(wrong: str) -> None:
    with pytest.raises(SettingsError) as refused:
        parse_flags([f"--controllers=*,{wrong}"])
    assert str(refused.value).startswith(f"--controllers: there is no controller '{wrong}'; give ")
    assert "bootstrapsigner, chaos, clusterrole-aggregation, cronjob, csrapproving" in str(refused.value)


def test_nodes_turn_all_controllers_on_unless_some_are_named() -> None:
    assert enabled("--nodes=3") == enabled("--nodes=0") == enabled("--controllers=*")
    named = "--controllers=default,simulated-nodes"
    of_nodes = {"chaos", "node-devices", "simulated-nodes", "stages"}
    assert enabled("--nodes=3", named) == enabled(named) == enabled() | of_nodes
    assert "stages" not in enabled("--nodes=3", "--controllers=*,-stages")
    assert parse_flags(["--nodes=3"])[0].controllers.nodes == 3
    assert enabled("--nodes=3", "--controllers=default", named) == enabled(named)
    for flags in (
        ["--nodes=-1"],
        ["--nodes=50001"],
        ["--nodes=1", "--controllers=*,-simulated-nodes"],
        ["--nodes=1", "--controllers=default"],
    ):
        with pytest.raises(SettingsError, match="--nodes"):
            parse_flags(flags)


def test_flags_of_workload_controllers_have_the_defaults_of_v1_25() -> None:
    assert parse_flags([])[0].workloads == WorkloadSettings()
    found = parse_flags(["--pvclaimbinder-sync-period=3s"])[0].workloads
    assert found.pvclaimbinder_sync_period == 3
    assert WorkloadSettings().pvclaimbinder_sync_period == 15
    found = parse_flags(["--node-monitor-grace-period=20s", "--node-eviction-rate=2.5"])[0].workloads
    assert (found.node_monitor_grace_period, found.node_eviction_rate) == (20, 2.5)


def test_whole_cluster_is_one_with_all_controllers() -> None:
    whole = (["--controllers=*"], ["--controllers=-podgc"], ["--nodes=2"])
    assert all(parse_flags(flags)[0].controllers.is_whole_cluster for flags in whole)
    parts = ([], ["--controllers=default"], ["--controllers=default,deployment"], ["--controllers=podgc"])
    assert not any(parse_flags(list(flags))[0].controllers.is_whole_cluster for flags in parts)


@cases(
    ("flag", "why"),
    [
        ("--pvclaimbinder-sync-period=0", "0s is not a positive duration"),
        ("--node-monitor-period=0", "0s is not a positive duration"),
        ("--node-eviction-rate=-1", "-1 is negative"),
        ("--large-cluster-size-threshold=-3", "-3 is negative"),
        ("--unhealthy-zone-threshold=55", "give a number from 0 to 1"),
        ("--default-storage-class=No Class", "cannot be the name of a StorageClass"),
        ("--node-events=some", "'some' is not none, failures or all"),
    ],
)
def test_wrong_values_of_workload_flags_are_refused(flag: str, why: str) -> None:
    with pytest.raises(SettingsError, match=why) as refused:
        parse_flags([flag])
    assert refused.value.flag == flag.partition("=")[0]


def test_networks_of_nodes_need_a_network_to_divide() -> None:
    with pytest.raises(SettingsError, match="is empty; write a network") as refused:
        parse_flags(["--allocate-node-cidrs"])
    assert refused.value.flag == "--cluster-cidr"
    chosen = parse_flags(["--allocate-node-cidrs", "--cluster-cidr=10.0.0.0/8", "--node-cidr-mask-size=20"])
    assert (chosen[0].workloads.cluster_cidr, chosen[0].workloads.node_cidr_mask_size) == ("10.0.0.0/8", 20)


def test_a_configuration_needs_the_scheduler() -> None:
    config = "--scheduler-config=profiles.yaml"
    assert parse_flags([config, "--controllers=*"])[0].controllers.scheduler_config is not None
    for flags in ([config], [config, "--controllers=*,-scheduler"]):
        with pytest.raises(SettingsError, match="--scheduler-config"):
            parse_flags(flags)


def test_nodes_have_the_rights_that_kubeadm_gives_them_unless_flags_say_otherwise() -> None:
    def rights(*flags: str) -> tuple[tuple[str, ...], bool]:
        settings = parse_flags(flags)[0]
        return settings.authorization_modes, "NodeRestriction" not in settings.plugins_off

    assert rights() == (("RBAC",), False)
    assert rights("--nodes=3") == rights("--nodes=0") == (("Node", "RBAC"), True)
    assert rights("--nodes=3", "--authorization-mode=RBAC") == (("RBAC",), True)
    assert rights("--nodes=3", "--enable-admission-plugins=AlwaysPullImages") == (("Node", "RBAC"), False)
    assert rights("--nodes=3", "--disable-admission-plugins=NodeRestriction") == (("Node", "RBAC"), False)


def test_devices_need_simulated_nodes() -> None:
    assert parse_flags(["--node-devices=f.yaml", "--nodes=1"])[0].controllers.node_devices == Path("f.yaml")
    with pytest.raises(SettingsError, match="has no effect without simulated nodes"):
        parse_flags(["--node-devices=f.yaml"])


def test_static_pods_need_simulated_nodes() -> None:
    assert parse_flags(["--static-pods=manifests", "--nodes=1"])[0].controllers.static_pods == Path(
        "manifests"
    )
    with pytest.raises(SettingsError, match="--static-pods: has no effect without simulated nodes"):
        parse_flags(["--static-pods=manifests"])
