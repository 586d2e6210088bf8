"""The error of a setting that cannot be served, and the checks that several groups of settings share."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


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
