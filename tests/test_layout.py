"""Tests of a package mirror its folders; what a client sees of the whole server is in `tests/api`, by subject."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parent
PACKAGES = ("actors", "gateway", "journal")
# Of the whole server: its API, its web page, real clients, recorded conversations, benchmarks, kills and power losses.
OF_THE_WHOLE = ("api", "benchmarks", "browser", "clients", "conformance", "robustness")


def test_tests_have_these_folders() -> None:
    assert subfolders(TESTS) == sorted(PACKAGES + OF_THE_WHOLE)


def test_every_folder_of_tests_has_its_folder_in_the_package() -> None:
    found = [folder for package in PACKAGES for folder in folders(TESTS / package)]
    assert len(found) > 30
    missing = [str(folder) for folder in found if not (TESTS.parent / folder.relative_to(TESTS)).is_dir()]
    assert missing == []


def test_subjects_of_the_api_are_folders() -> None:
    """Also those of the gateway: what lies beside its folders are servers and clients that tests share."""
    assert sorted((TESTS / "api").glob("test_*.py")) == []
    assert sorted((TESTS / "gateway").glob("test_*.py")) == []


def folders(folder: Path) -> list[Path]:
    return [one for name in subfolders(folder) for one in (folder / name, *folders(folder / name))]


def subfolders(folder: Path) -> list[str]:
    """Those with modules: a folder that moved may have left its compiled ones behind."""
    return sorted(one.parent.name for one in folder.glob("*/__init__.py"))
