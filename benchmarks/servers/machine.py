"""Describes the machine and the libraries of a run; no figure can be compared without them."""

from __future__ import annotations

import os
import platform
import ssl
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.options import ROOT
from rewound.cli.doctor import is_optimized

_LIBRARIES = (
    *("trio", "httptools", "orjson", "msgpack", "lmdb", "pydantic", "pydantic-core"),
    "cryptography",
)


def machine(scratch: Path) -> dict[str, Any]:
    return {
        "cores": len(os.sched_getaffinity(0)),
        "architecture": platform.machine(),
        "processor": _processor(),
        "memory_mb": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // (1 << 20),
        "kernel": platform.release(),
        "load_average_before": round(os.getloadavg()[0], 2),
        "file_system": file_system(scratch),
        "python": platform.python_version(),
        "python_build": "profile-guided" if is_optimized() else "not profile-guided",
        "openssl": ssl.OPENSSL_VERSION,
        "libraries": {name: version for name in _LIBRARIES if (version := _version(name))},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    facts = {line.split(":")[0].strip(): line.split(":", 1)[1].strip() for line in lines if ":" in line}
    if "model name" in facts:
        return facts["model name"]
    return f"implementer {facts.get('CPU implementer', '?')} part {facts.get('CPU part', '?')}"


def file_system(folder: Path) -> str:
    """The file system type of the mount that contains this folder; on tmpfs an fsync costs nothing."""
    best, kind = "", ""
    try:
        mounts = Path("/proc/mounts").read_text().splitlines()
    except OSError:
        return ""
    resolved = str(folder.resolve())
    for line in mounts:
        _, point, type_, *_ = line.split()
        inside = resolved == point or resolved.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, type_
    return kind


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def git_describe() -> str:
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--tags", "--dirty"], cwd=ROOT, capture_output=True, text=True
        )
    except OSError:
        return ""
    return found.stdout.strip()
