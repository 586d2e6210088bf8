"""Unique: a version is one state of one object."""

from __future__ import annotations

from tests.robustness.guarantees import GuaranteeBroken
from tests.robustness.history import History
from tests.robustness.validate.responses import SeenObject, seen_objects


def unique(history: History) -> None:
    first: dict[int, SeenObject] = {}
    for seen_object in seen_objects(history):
        known = first.setdefault(seen_object.version, seen_object)
        if (known.key, known.body) != (seen_object.key, seen_object.body):
            raise GuaranteeBroken(
                "Unique",
                f"version {seen_object.version} is {known.key} {known.body} in {known.where}, "
                f"and {seen_object.key} {seen_object.body} in {seen_object.where}",
            )
