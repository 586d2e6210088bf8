"""The file of --scheduler-config: profiles, plugins with weights and arguments, and errors that name the field."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewound.actors.names import KUBERNETES
from rewound.actors.scheduler.configuration import (
    SchedulerConfiguration,
    SchedulerConfigurationError,
    default_configuration,
    read_configuration,
)
from tests.actors.scheduler.scheduling import add_nodes, assigned, node, open_scheduling, pod, refusal
from tests.cases import checking

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\n"


def read(folder: Path, text: str) -> SchedulerConfiguration:
    path = folder / "scheduler.yaml"
    path.write_text(HEAD + text)
    return read_configuration(path, KUBERNETES)


def test_an_empty_file_means_the_default_profile(tmp_path: Path) -> None:
    found, default = read(tmp_path, ""), default_configuration()
    (profile,) = found.profiles.values()
    (expected,) = default.profiles.values()
    assert profile.name == expected.name == "default-scheduler"
    assert [one.name for one in profile.filters] == [one.name for one in expected.filters]
    assert [(one.name, weight) for one, weight in profile.scores] == [
        ("TaintToleration", 3),
        ("NodeAffinity", 2),
        ("NodeResourcesFit", 1),
        ("PodTopologySpread", 2),
        ("InterPodAffinity", 2),
        ("DynamicResources", 2),
        ("NodeResourcesBalancedAllocation", 1),
        ("ImageLocality", 1),
    ]


def test_plugins_are_disabled_weighed_and_ordered(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        """
percentageOfNodesToScore: 30
podInitialBackoffSeconds: 2
podMaxBackoffSeconds: 4
leaderElection: {leaderElect: false}
profiles:
- schedulerName: one
  plugins:
    multiPoint: {disabled: [{name: ImageLocality}], enabled: [{name: NodeAffinity, weight: 7}]}
    filter: {disabled: [{name: NodePorts}], enabled: [{name: InterPodAffinity}, {name: CinderLimits}]}
    score: {enabled: [{name: NodeResourcesFit, weight: 9}]}
    postFilter: {disabled: [{name: "*"}]}
- schedulerName: two
""",
    )
    assert (found.percentage_of_nodes, found.initial_backoff, found.longest_backoff) == (30, 2.0, 4.0)
    one, two = found.profiles["one"], found.profiles["two"]
    filters = [plugin.name for plugin in one.filters]
    assert (filters[0], filters[-1], "NodePorts" in filters) == ("InterPodAffinity", "CinderLimits", False)
    assert [(plugin.name, weight) for plugin, weight in one.scores] == [
        ("NodeResourcesFit", 9),
        ("TaintToleration", 3),
        ("NodeAffinity", 7),
        ("PodTopologySpread", 2),
        ("InterPodAffinity", 2),
        ("DynamicResources", 2),
        ("NodeResourcesBalancedAllocation", 1),
    ]
    assert (one.preempts, two.preempts) == (False, True)


def test_errors_name_the_field(tmp_path: Path) -> None:
    profile = "profiles:\n- pluginConfig:\n  - name: {}\n    args: {}\n"
    texts = {
        "percentage: 3": "percentage: is not known; there are ",
        "percentageOfNodesToScore: 101": "percentageOfNodesToScore: must be 0 to 100",
        "podMaxBackoffSeconds: many": "podMaxBackoffSeconds: must be an integer",
        "podInitialBackoffSeconds: 20": "podMaxBackoffSeconds: must not be less than",
        "extenders: [{urlPrefix: a}]": "extenders: this scheduler calls no extenders; remove",
        "profiles: [{}, {}]": "profiles[0].schedulerName: is needed if there are several",
        "profiles: [{schedulerName: a}, {schedulerName: a}]": "profiles[1].schedulerName: two profiles",
        "profiles: [{plugins: {score: {enabled: [{name: Nope}]}}}]": (
            "profiles[0].plugins.score.enabled[0].name: there is no plugin 'Nope'"
        ),
        "profiles: [{plugins: {score: {enabled: [{name: NodePorts}]}}}]": (
            "profiles[0].plugins.score.enabled: NodePorts does nothing there"
        ),
        "profiles: [{plugins: {preFilter: {disabled: [{name: NodePorts}]}}}]": (
            "profiles[0].plugins.preFilter: NodePorts is needed as long as filter has it"
        ),
        "profiles: [{plugins: {bind: {disabled: [{name: '*'}]}}}]": (
            "profiles[0].plugins.bind: DefaultBinder is needed"
        ),
        "profiles: [{plugins: {scoring: {}}}]": "profiles[0].plugins.scoring: is not known",
        profile.format(
            "InterPodAffinity", "{hardPodAffinityWeight: 101}"
        ): "hardPodAffinityWeight: must be 0",
        profile.format("InterPodAffinity", "{weight: 1}"): "pluginConfig[0].args.weight: is not known",
        profile.format(
            "NodeResourcesFit", "{scoringStrategy: {type: Best}}"
        ): "scoringStrategy.type: must be Lea",
        profile.format("NodeResourcesFit", "{scoringStrategy: {type: RequestedToCapacityRatio}}"): (
            "requestedToCapacityRatio.shape: at least one point"
        ),
        profile.format(
            "PodTopologySpread",
            "{defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway}]}",
        ): "defaultingType: must be List",
        profile.format(
            "DefaultPreemption", "{minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}"
        ): ("minCandidateNodesPercentage: must not be 0"),
        profile.format(
            "NodeAffinity", "{addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {}}}"
        ): ("args.addedAffinity: "),
        profile.format("VolumeBinding", "{bindTimeoutSeconds: -1}"): "bindTimeoutSeconds: must be 0 or more",
    }
    with checking() as case:
        for text, expected in texts.items():
            with case(text):
                with pytest.raises(SchedulerConfigurationError) as caught:
                    read(tmp_path, text)
                assert expected in str(caught.value)
                assert str(tmp_path) in str(caught.value)


async def test_each_profile_schedules_its_pods(tmp_path: Path, autojump_clock: object) -> None:
    configuration = read(
        tmp_path,
        """
profiles:
- schedulerName: default-scheduler
- schedulerName: packing
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated}}
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms: [{matchExpressions: [{key: room, operator: Exists}]}]
  plugins: {score: {disabled: [{name: NodeResourcesBalancedAllocation}]}}
""",
    )
    async with open_scheduling(tmp_path, configuration=configuration) as bench:
        room = {"room": "yes"}
        await add_nodes(bench, node("a", labels=room), node("b", labels=room), node("c", cpu="1"))
        await bench.create("pods", pod("first", cpu="1", nodeSelector={"kubernetes.io/hostname": "b"}))
        await bench.rest()
        await bench.create("pods", pod("packed", cpu="1", schedulerName="packing"))
        await bench.create("pods", pod("spread", cpu="1", nodeSelector=room))
        await bench.create("pods", pod("foreign", schedulerName="another"))
        await bench.create(
            "pods",
            pod("refused", schedulerName="packing", nodeSelector={"kubernetes.io/hostname": "c"}),
        )
        await bench.rest()
        assert assigned(bench) == {"first": "b", "packed": "b", "spread": "a", "foreign": "", "refused": ""}
        assert refusal(bench, "refused") == (
            "0/3 nodes are available: 1 node(s) didn't match scheduler-enforced node affinity, "
            "2 node(s) didn't match Pod's node affinity/selector. preemption: 0/3 nodes are available: "
            "3 Preemption is not helpful for scheduling."
        )
        events = {one["involvedObject"]["name"]: one["reportingComponent"] for one in bench.all("events")}
        assert events["packed"] == "packing"
