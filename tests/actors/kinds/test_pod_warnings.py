"""Pod: warnings about valid pods."""

from __future__ import annotations

from typing import Any

from rewound.actors.names import Names
from tests.actors.kinds.definitions import Definitions
from tests.actors.kinds.pods import CONTAINER, pod
from tests.cases import cases


def warnings(kinds: Definitions, **parts: Any) -> list[str]:
    return kinds["pods"].strategy.warnings(kinds.stored("pods", pod(**parts)), None)


@cases(
    ("source", "text"),
    [
        ({"gitRepo": {"repository": "r"}}, "gitRepo: deprecated in v1.11"),
        (
            {"photonPersistentDisk": {"pdID": "p"}},
            "photonPersistentDisk: deprecated in v1.11, non-functional in v1.16+",
        ),
        ({"scaleIO": {}}, "scaleIO: deprecated in v1.16, non-functional in v1.22+"),
        ({"flocker": {}}, "flocker: deprecated in v1.22, support removal is planned in v1.26"),
        ({"storageos": {}}, "storageOS: deprecated in v1.22, support removal is planned in v1.26"),
        ({"quobyte": {}}, "quobyte: deprecated in v1.22, support removal is planned in v1.26"),
        (
            {"glusterfs": {}},
            "glusterfs: deprecated in v1.25, this feature will be removed soon after in a subsequent release",
        ),
    ],
)
def test_create_warns_about_deprecated_volume_sources(kinds: Definitions, source: Any, text: str) -> None:
    assert warnings(kinds, volumes=[{"name": "v", **source}]) == [f"spec.volumes[0].{text}"]


def test_create_warns_about_deprecated_node_labels(kinds: Definitions, names: Names) -> None:
    old, new = names.key("arch", "beta"), names.key("arch")
    text = f'deprecated since v1.14; use "{new}" instead'
    term = {"matchExpressions": [{"key": old, "operator": "Exists"}]}
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}],
        }
    }
    spread = [{"maxSkew": 1, "topologyKey": old, "whenUnsatisfiable": "DoNotSchedule"}]
    path = "spec.affinity.nodeAffinity"
    found = warnings(kinds, nodeSelector={old: "x"}, affinity=affinity, topologySpreadConstraints=spread)
    assert found == [
        f"spec.nodeSelector[{old}]: {text}",
        f"{path}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].key: "
        f"{old} is {text}",
        f"{path}.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].key: "
        f"{old} is {text}",
        f"spec.topologySpreadConstraints[0].topologyKey: {old} is {text}",
    ]


def test_create_warns_about_deprecated_annotations(kinds: Definitions, names: Names) -> None:
    critical, sysctls = names.key("critical-pod", "scheduler.alpha"), names.key("sysctls", "security.alpha")
    annotations = {critical: "", sysctls: "a=b"}
    assert warnings(kinds, metadata={"annotations": annotations}) == [
        f'metadata.annotations[{critical}]: non-functional in v1.16+; use the "priorityClassName" field instead',
        f'metadata.annotations[{sysctls}]: non-functional in v1.11+; use the "sysctls" field instead',
    ]


def test_create_warns_about_duplicate_names(kinds: Definitions) -> None:
    env = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    assert warnings(kinds, containers=[{**CONTAINER, "env": env}]) == [
        'spec.containers[0].env[1].name: duplicate name "A"'
    ]
    assert warnings(kinds, hostAliases=[{"ip": "1.1.1.1"}, {"ip": "1.1.1.1"}]) == [
        'spec.hostAliases[1].ip: duplicate ip "1.1.1.1"'
    ]
    assert warnings(kinds, imagePullSecrets=[{"name": "s"}, {"name": "s"}, {}]) == [
        'spec.imagePullSecrets[1].name: duplicate name "s"',
        'spec.imagePullSecrets[2].name: invalid empty name ""',
    ]


def test_create_warns_about_fractional_bytes(kinds: Definitions) -> None:
    resources = {"limits": {"memory": "500m"}, "requests": {"memory": "500m"}}
    text = 'fractional byte value "500m" is invalid, must be an integer'
    found = warnings(kinds, overhead={"memory": "500m"}, containers=[{**CONTAINER, "resources": resources}])
    assert found == [
        f"spec.overhead[memory]: {text}",
        f"spec.containers[0].resources.limits[memory]: {text}",
        f"spec.containers[0].resources.requests[memory]: {text}",
    ]


def test_update_of_a_pod_has_no_warnings(kinds: Definitions) -> None:
    stored = kinds.stored("pods", pod(volumes=[{"name": "v", "gitRepo": {"repository": "r"}}]))
    assert kinds["pods"].strategy.warnings(stored, stored) == []


def test_warnings_about_templates_have_their_path(kinds: Definitions) -> None:
    template = {
        "spec": {"containers": [CONTAINER], "volumes": [{"name": "v", "gitRepo": {"repository": "r"}}]}
    }
    document = {"metadata": {"name": "a"}, "template": template}
    stored = kinds.stored("podtemplates", document)
    text = "template.spec.volumes[0].gitRepo: deprecated in v1.11"
    assert kinds["podtemplates"].strategy.warnings(stored, None) == [text]
    assert kinds["podtemplates"].strategy.warnings(stored, stored) == []
