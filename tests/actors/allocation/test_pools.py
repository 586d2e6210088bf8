"""Pools: which items they contain, in which order free items are allocated, and what happens when none is left."""

from __future__ import annotations

import pytest

from rewound.actors.allocation.allocated import AddressPool, NotInRange, PortPool
from rewound.actors.allocation.ranges import parse_networks, parse_ports


def taken_from(pool: AddressPool | PortPool, count: int) -> list[str]:
    allocated: set[str] = set()
    cursor = pool.cursor()
    for _ in range(count):
        found = cursor.next(lambda item: item not in allocated)
        assert found is not None
        allocated.add(str(found))
    return list(allocated)


def test_addresses_are_allocated_in_order_and_the_static_range_last() -> None:
    cursor = AddressPool("10.0.0.0/24").cursor()
    allocated: set[str] = set()
    order: list[str] = []
    while (found := cursor.next(lambda item: item not in allocated)) is not None:
        allocated.add(found)
        order.append(found)
    assert order[:2] == ["10.0.0.17", "10.0.0.18"]
    assert order[237:239] == ["10.0.0.254", "10.0.0.2"]
    assert order[-1] == "10.0.0.16" and len(order) == 253


def test_released_address_is_allocated_last() -> None:
    pool = AddressPool("10.0.0.0/24")
    cursor = pool.cursor()
    assert cursor.next(lambda _: True) == "10.0.0.17"
    assert cursor.next(lambda _: True) == "10.0.0.18"
    pool.continue_from(cursor)
    assert pool.cursor().next(lambda _: True) == "10.0.0.19"


def test_cursor_that_is_dropped_leaves_no_gap() -> None:
    pools = (AddressPool("10.0.0.0/24"), PortPool(30000, 30002))
    for pool in pools:
        assert pool.cursor().next(lambda _: True) == pool.cursor().next(lambda _: True)


def test_small_network_has_no_static_range() -> None:
    assert sorted(taken_from(AddressPool("10.0.0.0/29"), 5)) == [f"10.0.0.{n}" for n in range(2, 7)]
    assert AddressPool("10.0.0.0/29").cursor().next(lambda _: False) is None


def test_ipv6_addresses_are_allocated() -> None:
    pool = AddressPool("fd00::/108")
    assert pool.family == "IPv6" and pool.cursor().next(lambda _: True) == "fd00::101"
    assert pool.check("fd00::ffff") == "fd00::ffff"
    with pytest.raises(NotInRange):
        pool.check("fd00::1:0000")


def test_address_outside_the_network_is_refused() -> None:
    pool = AddressPool("10.0.0.0/24")
    assert pool.check("10.0.0.1") == "10.0.0.1" and pool.check("010.0.0.5") == "10.0.0.5"
    for outside in ("10.0.0.0", "10.0.0.255", "10.0.1.1", "fd00::1"):
        with pytest.raises(NotInRange) as raised:
            pool.check(outside)
        assert str(raised.value) == (
            f"the provided IP ({outside}) is not in the valid range. The range of valid IPs is 10.0.0.0/24"
        )


def test_ports_are_allocated_in_order() -> None:
    pool = PortPool(30000, 30002)
    cursor, allocated = pool.cursor(), {"30001"}
    assert cursor.next(lambda item: item not in allocated) == "30000"
    assert cursor.next(lambda item: item not in allocated) == "30002"
    assert cursor.next(lambda _: False) is None
    assert pool.check(30002) == "30002"
    with pytest.raises(NotInRange) as raised:
        pool.check(80)
    assert str(raised.value) == (
        "provided port is not in the valid range. The range of valid ports is 30000-30002"
    )


def test_ranges_are_parsed() -> None:
    assert parse_networks("10.0.0.0/24") == ("10.0.0.0/24",)
    assert parse_networks("fd00::/108, 10.0.0.0/24") == ("fd00::/108", "10.0.0.0/24")
    assert parse_ports("30000-32767") == (30000, 32767)
    for wrong in ("", "no", "10.0.0.1/24", "10.0.0.0/24,10.1.0.0/24", "10.0.0.0/30"):
        with pytest.raises(ValueError, match=r"give|write"):
            parse_networks(wrong)
    for wrong in ("", "30000", "2-1", "0-5", "1-70000", "a-b"):
        with pytest.raises(ValueError, match="30000-32767"):
            parse_ports(wrong)
