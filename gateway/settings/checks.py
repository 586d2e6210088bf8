"""The error of a setting that cannot be served, and the checks that several groups of settings share."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
REVIEW_VERSIONS = ("v1", "v1beta1")  # of the reviews that webhooks get


class SettingsError(Exception):
    """A setting that cannot be served; `flag` is the one to change."""

    def __init__(self, flag: str, why: str) -> None:
        self.flag = flag
        super().__init__(f"{flag}: {why}")


def check_parsed(flag: str, parse: Callable[[], T]) -> T:
    """The result of `parse`; its ValueError says what is wrong with the flag."""
    try:
        return parse()
    except ValueError as error:
        raise SettingsError(flag, str(error)) from None


def split_list(flag: str, values: tuple[str, ...]) -> list[str]:
    """The values of a flag that occurs once or more, each with one value or several; quotes protect a comma."""
    try:
        return [one for row in csv.reader(values, strict=True) for one in row or [""]]
    except csv.Error as error:
        raise SettingsError(flag, f"the list cannot be read: {error}") from None


def check_choice(flag: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise SettingsError(flag, f"{value!r} is not known; choose one of {' | '.join(allowed)}")


def check_file(flag: str, path: Path | None) -> None:
    if path is not None and not path.is_file():
        raise SettingsError(flag, f"there is no file {path}; check the path")


def refuse_without(group: Any, needed: str, prefix: str = "") -> None:
    """Refuse every setting of a group that differs from its default: without the flag `needed` it has no effect."""
    for one in fields(group):
        if one.name.startswith(prefix) and getattr(group, one.name) != one.default:
            flag = f"--{one.name.replace('_', '-')}"
            raise SettingsError(flag, f"has no effect without {needed}; add it or leave this out")
