"""The release, in one place: packaging reads it here, so that a start need not load package metadata."""

from __future__ import annotations

import platform

RELEASE = "0.10.0"

# Go's names, which clients expect, for machines that Python names differently.
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_MACHINE = platform.machine().lower()
PLATFORM = f"{platform.system().lower()}/{_MACHINES.get(_MACHINE, _MACHINE)}"


def served_version(kubernetes: str) -> str:
    """The version in /version and OpenAPI: that of the interface, such as v1.25.16, and of the program behind it."""
    return f"{kubernetes}+rewound.{RELEASE}"


def version_document(kubernetes: str) -> dict[str, str]:
    """The document at /version."""
    major, minor, _ = kubernetes.removeprefix("v").split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": served_version(kubernetes),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": platform.python_implementation().lower(),
        "platform": PLATFORM,
    }
