"""Catalogs are immutable snapshots: a change returns the next one."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import pytest

from rewound.actors.kinds.catalog import Catalog
from rewound.actors.kinds.declaration.definition import Storage
from tests.actors.kinds.crontabs import GROUP, TYPE, crontabs


def test_added_kind_is_found_in_the_new_snapshot_only(catalog: Catalog) -> None:
    kind = crontabs()
    following = catalog.adding([kind])
    assert following.find(GROUP, "v1", "crontabs") is kind
    assert following.of_kind(f"{GROUP}/v1", "CronTab") is kind
    assert following.by_short_name("ct") == (kind,)
    assert following.storage(TYPE) is kind
    assert following.of_version(GROUP, "v1") == (kind,)
    assert following.groups() == {**catalog.groups(), GROUP: ("v1",)}
    assert following.serves(GROUP, "crontabs") and following.holds(kind)
    assert TYPE in following.stored_types()
    assert catalog.find(GROUP, "v1", "crontabs") is None
    assert not catalog.group_exists(GROUP) and catalog.stored_type(TYPE) is None


def test_unchanged_group_versions_are_shared_with_the_snapshot_before(catalog: Catalog) -> None:
    following = catalog.adding([crontabs()])
    assert following.changed_since(catalog) == [TYPE] == catalog.changed_since(following)
    for group, versions in catalog.groups().items():
        for version in versions:
            assert following.of_version(group, version) is catalog.of_version(group, version)


def test_changes_are_known_over_several_snapshots_and_no_snapshot_keeps_earlier_ones(
    catalog: Catalog,
) -> None:
    between = catalog.adding([crontabs()])
    last = between.adding([replace(crontabs(), plural="hours", kind="Hour")])
    assert last.changed_since(between) == [f"hours.{GROUP}"]
    assert set(last.changed_since(catalog)) == {TYPE, f"hours.{GROUP}"}
    assert last.without(TYPE).changed_since(last) == [TYPE]
    earlier = weakref.ref(between)
    del between
    gc.collect()
    assert earlier() is None
    assert set(last.changed_since(catalog)) == {TYPE, f"hours.{GROUP}"}


def test_adding_a_type_again_replaces_all_its_versions(catalog: Catalog) -> None:
    old, new, newer = crontabs(), crontabs(), crontabs("v2")
    both = catalog.adding([old]).adding([new, newer])
    assert both.find(GROUP, "v1", "crontabs") is new and not both.holds(old)
    assert both.groups()[GROUP] == ("v2", "v1")
    one = both.adding([new])
    assert one.find(GROUP, "v2", "crontabs") is None
    assert one.of_kind(f"{GROUP}/v2", "CronTab") is None
    assert one.by_short_name("ct") == (new,)


def test_versions_of_a_group_are_in_the_order_of_kubernetes(catalog: Catalog) -> None:
    sorted_ones = (
        "v10",
        "v2",
        "v1",
        "v0",
        "v11beta2",
        "v2beta3",
        "v2beta1",
        "v2beta0",
        "v0beta1",
        "v1alpha10",
        "v1alpha2",
        "v0alpha1",
        "foo1",
        "foo10",
        "v9223372036854775808",  # its number does not fit into 64 bits
    )
    others = catalog.adding([crontabs(version) for version in sorted(sorted_ones)])
    assert others.groups()[GROUP] == sorted_ones


def test_replacing_a_kind_keeps_the_preferred_version_of_its_group(catalog: Catalog) -> None:
    other = replace(crontabs(), plural="jobtabs", kind="JobTab")
    before = catalog.adding([crontabs("v2"), crontabs()]).adding([other])
    after = before.adding([crontabs("v2"), crontabs()])
    assert after.groups()[GROUP] == before.groups()[GROUP] == ("v2", "v1")


def test_retired_kind_is_declared_but_not_served(catalog: Catalog) -> None:
    kind = crontabs()
    retired = catalog.adding([kind]).retiring(TYPE)
    assert retired.find(GROUP, "v1", "crontabs") is None
    assert not retired.group_exists(GROUP) and not retired.serves(GROUP, "crontabs")
    assert retired.definitions == catalog.definitions
    assert kind in retired.declared and retired.storage(TYPE) is kind
    assert retired.of_kind(f"{GROUP}/v1", "CronTab") is kind


def test_removed_kind_leaves_nothing_behind(catalog: Catalog) -> None:
    removed = catalog.adding([crontabs("v2"), crontabs()]).without(TYPE)
    assert removed.definitions == catalog.definitions
    assert removed.declared == catalog.declared
    assert removed.groups() == catalog.groups()
    assert removed.by_short_name("ct") == () == catalog.by_short_name("ct")


def test_versions_may_be_declared_but_not_served(catalog: Catalog) -> None:
    stored, served = crontabs(), crontabs("v2")
    following = catalog.adding([stored, served], lambda one: one is served)
    assert following.groups()[GROUP] == ("v2",)
    assert following.storage(TYPE) is stored


def test_two_types_cannot_share_group_version_and_plural(catalog: Catalog) -> None:
    other = replace(crontabs(), group="", plural="configmaps", storage=Storage(stored_as=TYPE))
    with pytest.raises(ValueError, match="configmaps of v1 is configmaps already"):
        catalog.adding([other])
