"""How messages show the strategy of a workload that has an unknown type: all of it, as the version prints values."""

from __future__ import annotations

from typing import Any

from rewound.actors.kinds.built_in import built_in
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import choose_release
from tests.actors.kinds.definitions import Definitions
from tests.cases import cases

TEMPLATE = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "a", "image": "i"}]},
}
VERSIONS = {
    version: Definitions(built_in(KUBERNETES, choose_release(version))) for version in ("1.25", "1.36")
}


def causes(version: str, plural: str, **spec: Any) -> list[tuple[str, str]]:
    whole = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE, **spec}
    return VERSIONS[version].create_causes(plural, {"metadata": {"name": "a"}, "spec": whole})


@cases(
    ("plural", "field", "printed", "rest"),
    [
        (
            "deployments",
            "strategy",
            'Unsupported value: apps.DeploymentStrategy{Type:"X", RollingUpdate:(*apps.RollingUpdateDeployment)(nil)}',
            ': supported values: "Recreate", "RollingUpdate"',
        ),
        (
            "daemonsets",
            "updateStrategy",
            'Unsupported value: apps.DaemonSetUpdateStrategy{Type:"X", '
            "RollingUpdate:(*apps.RollingUpdateDaemonSet)(nil)}",
            ': supported values: "RollingUpdate", "OnDelete"',
        ),
        (
            "statefulsets",
            "updateStrategy",
            'Invalid value: apps.StatefulSetUpdateStrategy{Type:"X", '
            "RollingUpdate:(*apps.RollingUpdateStatefulSetStrategy)(nil)}",
            ": must be 'RollingUpdate' or 'OnDelete'",
        ),
    ],
)
def test_unknown_types(plural: str, field: str, printed: str, rest: str) -> None:
    sent = {field: {"type": "X"}}
    assert causes("1.25", plural, **sent) == [(f"spec.{field}", printed + rest)]
    what = printed.partition(":")[0]
    ((_, message),) = causes("1.36", plural, **sent)
    assert message.startswith(f'{what}: {{"Type":"X","RollingUpdate":null}}: ')


@cases(
    ("plural", "field", "rolling", "printed"),
    [
        ("deployments", "strategy", {"maxSurge": "25%"}, '{"MaxUnavailable":0,"MaxSurge":"25%"}'),
        ("daemonsets", "updateStrategy", {"maxUnavailable": 1}, '{"MaxUnavailable":1,"MaxSurge":0}'),
        ("statefulsets", "updateStrategy", {"partition": 2}, '{"Partition":2,"MaxUnavailable":null}'),
    ],
)
def test_a_rolling_update_is_shown_as_json_but_not_its_address(
    plural: str, field: str, rolling: dict[str, Any], printed: str
) -> None:
    sent = {field: {"type": "X", "rollingUpdate": rolling}}
    ((_, message),) = causes("1.25", plural, **sent)
    assert ' value: "X": ' in message
    ((_, message),) = causes("1.36", plural, **sent)
    assert f' value: {{"Type":"X","RollingUpdate":{printed}}}: ' in message
