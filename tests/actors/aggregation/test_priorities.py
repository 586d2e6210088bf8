"""The order of built-in groups in discovery."""

from __future__ import annotations

from rewound.actors.aggregation.priorities import built_in_priorities
from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.enablement import Enablement
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import choose_release
from rewound.actors.versions.version import VERSIONS

OWN_ORDER = (
    "",
    "apiregistration.k8s.io",
    "metrics.k8s.io",
)  # first without an APIService, or of another server


def test_every_group_version_has_a_priority() -> None:
    for version in VERSIONS:
        release = choose_release(version)
        priorities = built_in_priorities(KUBERNETES, release.features)
        for group, served in built_in(KUBERNETES, release, Enablement(every=True)).groups().items():
            if group not in OWN_ORDER:
                assert {(group, one) for one in served} <= priorities.keys(), version


def test_devices_come_before_flow_control() -> None:
    flows = "flowcontrol.apiserver.k8s.io"
    for version, priority in (("1.31", 15900), ("1.32", 16200)):
        found = built_in_priorities(KUBERNETES, choose_release(version).features)
        assert found["resource.k8s.io", "v1alpha3"].group == priority
        assert found[flows, "v1"].group == 16100
