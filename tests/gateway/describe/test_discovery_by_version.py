"""Legacy discovery lists singular names and storage versions as each version of Kubernetes does."""

from __future__ import annotations

import pytest

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import choose_release
from rewound.actors.versions.version import VERSIONS


def catalog_of(version: str) -> Catalog:
    return built_in(KUBERNETES, choose_release(version))


@pytest.mark.parametrize("version", VERSIONS)
def test_built_in_kinds_have_singular_names_since_1_27(version: str) -> None:
    singular = {one.names.singular for one in catalog_of(version).definitions}
    assert ("configmap" in singular and "" not in singular) == (version not in ("1.25", "1.26"))


@pytest.mark.parametrize(
    ("version", "announced"), [("1.25", "v1"), ("1.26", "v1"), ("1.27", "v2"), ("1.36", "v2")]
)
def test_announced_storage_version_is_that_of_kubernetes(version: str, announced: str) -> None:
    autoscaler = catalog_of(version).storage("horizontalpodautoscalers.autoscaling")
    assert autoscaler.storage.announced_version == announced
