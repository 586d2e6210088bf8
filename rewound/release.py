"""The release, in one place: packaging reads it here, so that a start need not load package metadata."""

from __future__ import annotations

import platform

RELEASE = "0.10.0"
# The version in /version and OpenAPI: that of the interface, and of the program behind it.
SERVED_VERSION = f"v1.25.16+rewound.{RELEASE}"

# Go's names, which clients expect, for machines that Python names differently.
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_MACHINE = platform.machine().lower()
PLATFORM = f"{platform.system().lower()}/{_MACHINES.get(_MACHINE, _MACHINE)}"


def version_document() -> dict[str, str]:
    """The document at /version."""
    major, minor = "1", "25"
    return {
        "major": major,
        "minor": minor,
        "gitVersion": SERVED_VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": platform.python_implementation().lower(),
        "platform": PLATFORM,
    }
