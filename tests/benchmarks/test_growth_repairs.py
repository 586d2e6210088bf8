"""The complexity fuzzer learns from the rules of a kind what its objects need beside what grows."""

from __future__ import annotations

import pytest

from benchmarks.attacks.growth.cases import definition_of
from benchmarks.attacks.growth.repairs import Repairs
from rewound.actors.kinds.built_in import built_in
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import choose_release
from tests.actors.kinds.definitions import Definitions

DEFINITIONS = Definitions(built_in(KUBERNETES, choose_release("1.36")))


@pytest.mark.parametrize(
    ("plural", "place"),
    [
        ("pods", "spec.volumes.configMap.items"),  # another volume type is in the seed
        ("pods", "spec.containers.env.valueFrom.configMapKeyRef.name"),  # and value
        ("pods", "spec.initContainers.readinessProbe.httpGet.httpHeaders"),  # without restartPolicy and port
        ("pods", "spec.containers.startupProbe.exec.command"),
        ("persistentvolumes", "spec.nfs.server"),  # without path, and another volume type
        ("resourceclaims", "spec.devices.requests.firstAvailable.selectors"),
        ("ingresses", "spec.defaultBackend.resource.name"),
    ],
)
def test_objects_that_grow_become_valid(plural: str, place: str) -> None:
    definition = definition_of(plural)
    for count in (2, 5):
        document = Repairs(DEFINITIONS).grown(definition, tuple(place.split(".")), count=count)
        sent = {"apiVersion": definition.api_version, "kind": definition.kind, **document}
        assert DEFINITIONS.create_causes(plural, sent) == [], sent
