"""Random services get what they need or an error; nothing is allocated twice."""

from __future__ import annotations

import copy

from rewound.actors.admission.completions import ServiceAllocation
from rewound.actors.allocation.allocated import AllocatedItems, FixedRanges, PortPool, items_in, items_of
from rewound.actors.allocation.services import ServicePools
from rewound.actors.errors import Exhausted, Invalid
from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.schema.decoder import NotDecodable
from rewound.actors.messages import Object
from rewound.actors.names import CLUSTER
from rewound.actors.store.document import encode
from rewound.actors.store.feed import Feed
from rewound.journal.log import Journal
from tests.actors.admission.admitted import admitted
from tests.actors.kinds.documents import RandomDocuments
from tests.actors.object_store import memory_folder

SERVICES = built_in(CLUSTER).find("", "v1", "services")
assert SERVICES is not None
POOLS = ServicePools(FixedRanges(("10.0.0.0/24", "fd00::/120")), PortPool(30000, 30200))


def odd_services() -> list[Object]:
    assert SERVICES is not None
    found: list[Object] = []
    for seed in range(300):
        document = RandomDocuments(seed, junk_one_in=400).of(SERVICES.fields)
        document.setdefault("spec", {})
        if isinstance(document["spec"], dict):
            document["spec"]["type"] = ("ClusterIP", "NodePort", "LoadBalancer", "ExternalName")[seed % 4]
            for part in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")[: seed % 5]:
                document["spec"].pop(part, None)
        try:
            found.append(SERVICES.schema.decode_object(document).object)
        except NotDecodable:
            continue
    return found


def test_nothing_is_allocated_twice() -> None:
    assert SERVICES is not None
    with memory_folder() as folder:
        journal = Journal.open(folder / "journal")
        allocation = ServiceAllocation(AllocatedItems(journal, Feed(0, journal)), POOLS)
        given: list[str] = []
        for service in odd_services():
            try:
                made = admitted(allocation, SERVICES, "CREATE", service)
            except (Invalid, Exhausted):
                continue
            given += [item for item in items_of(made) if item.startswith(("10.0.", "fd00", "30"))]
            again = admitted(allocation, SERVICES, "UPDATE", copy.deepcopy(made), made)
            assert items_of(again) == items_of(made)
        assert len(given) > 50 and len(given) == len(set(given))
        journal.close()


def test_items_in_a_text_are_those_of_the_service() -> None:
    odd = {"nodePort": "1", "clusterIPs": '["10.0.0.9"]', "x": '","nodePort":7,"healthCheckNodePort":8'}
    for service in odd_services():
        service["metadata"] = {"labels": odd, "annotations": odd, "managedFields": [{"f:nodePort": {}}]}
        assert items_in(encode(service, 1)) == items_of(service)
