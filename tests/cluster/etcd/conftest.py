"""One etcd member for all tests of a module, a client of it, and a separate key prefix for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from itertools import count

import pytest

from rewound.cluster.etcd.client import EtcdClient
from tests.etcd_members import EtcdMembers, etcd_members

_numbers = count()


@pytest.fixture(scope="module")
def cluster() -> Iterator[EtcdMembers]:
    with etcd_members() as members:
        yield members


@pytest.fixture
async def client(cluster: EtcdMembers) -> AsyncIterator[EtcdClient]:
    async with cluster.running_client() as client:
        yield client


@pytest.fixture
def prefix() -> bytes:
    return b"/test/%d/" % next(_numbers)
