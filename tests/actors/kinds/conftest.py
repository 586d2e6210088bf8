"""Kinds of both dialects with the rules of the documents, by plural name."""

from __future__ import annotations

import pytest

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.enablement import Enablement
from rewound.actors.names import NAMES, Names
from rewound.actors.profile import DOCUMENTED
from tests.actors.kinds.definitions import Definitions


@pytest.fixture(params=sorted(NAMES), scope="session")
def names(request: pytest.FixtureRequest) -> Names:
    return NAMES[request.param]


@pytest.fixture(scope="session")
def catalog(names: Names) -> Catalog:
    return built_in(names, enabled=Enablement(every=True), rules=DOCUMENTED)


@pytest.fixture(scope="session")
def kinds(catalog: Catalog) -> Definitions:
    return Definitions(catalog)
