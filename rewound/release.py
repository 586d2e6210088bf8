"""The release, in one place: packaging reads it here, so that a start need not load package metadata."""

from __future__ import annotations

import platform

RELEASE = "0.11.0"
# What git calls no commit: clients expect hexadecimal digits, and an installed package does not know its own.
NO_COMMIT = "0" * 40

# Go's names, which clients expect, for machines that Python names differently.
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_MACHINE = platform.machine().lower()
PLATFORM = f"{platform.system().lower()}/{_MACHINES.get(_MACHINE, _MACHINE)}"


def served_version(kubernetes: str) -> str:
    """The version in /version and OpenAPI: that of the interface, such as v1.25.16, and of the program behind it."""
    return f"{kubernetes}+rewound.{RELEASE}"


def version_document(kubernetes: str, *, names_emulation: bool = False) -> dict[str, str]:
    """The document at /version; `names_emulation`: with the version that is emulated, and the oldest compatible one."""
    major, minor, _ = kubernetes.removeprefix("v").split(".")
    emulation = {
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": str(int(minor) - 1),
    }
    return {
        "major": major,
        "minor": minor,
        **(emulation if names_emulation else {}),
        "gitVersion": served_version(kubernetes),
        "gitCommit": NO_COMMIT,
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": platform.python_implementation().lower(),
        "platform": PLATFORM,
    }
