"""Builds what a release consists of, the same bytes every time: `make release`.

    python .ci/release.py [--output dist] [--uncommitted]

    rewound-N.tar.gz                 the source distribution
    rewound-N-py3-none-any.whl       the wheel, built from it: what the one lacks, the other lacks too
    rewound-N.cdx.json               what the wheel needs at run time, with versions and licences (CycloneDX 1.5)
    SHA256SUMS                       of these three, for `sha256sum --check`

Bytes depend on the commit and on the installed setuptools, zlib and dependencies, not on the folder, the user, the
umask, the time zone or the clock: files come from git with fixed modes, every time is that of the commit
(SOURCE_DATE_EPOCH, if that is set), archives are sorted and have no owner. setuptools does that for wheels; its source
distributions are packed again here. Rejected: `build` and `cyclonedx-py`, two more packages for three calls.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PACKAGED = ("rewound", "LICENSE", "README.md", "pyproject.toml")
EXTRAS = ("http3", "explore")  # what users install; `test` and `dev` are for this clone
_BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"


class Refused(Exception):
    """No release can be made of this clone."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=ROOT / "dist")
    parser.add_argument(
        "--uncommitted", action="store_true", help="package changes that are not committed too"
    )
    given = parser.parse_args()
    try:
        made = release(ROOT, given.output.absolute(), uncommitted=given.uncommitted)
    except Refused as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    print(made.read_text(), end="")
    return 0


def release(root: Path, output: Path, *, uncommitted: bool) -> Path:
    """Build everything into `output`; return the file of checksums."""
    changed = _git(root, "status", "--porcelain", "--untracked-files=no", "--", *PACKAGED)
    if changed and not uncommitted:
        raise Refused(f"there are uncommitted changes (--uncommitted packages them):\n{changed}")
    time = int(os.environ.get("SOURCE_DATE_EPOCH") or _git(root, "log", "-1", "--format=%ct"))
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sources = folder / "sources"
        for path in _git(root, "ls-files", "--", *PACKAGED).splitlines():
            _copy(root / path, sources / path)
        _write_man_pages(sources)
        built = folder / _build("build_sdist", sources, folder, time)
        source = output / built.name
        _pack_again(built, source, time)
        with tarfile.open(source) as archive:
            archive.extractall(folder / "unpacked", filter="data")
        (unpacked,) = (folder / "unpacked").iterdir()
        wheel = output / _build("build_wheel", unpacked, output, time)
    inventory = output / f"{source.name.removesuffix('.tar.gz')}.cdx.json"
    inventory.write_text(json.dumps(bill_of_materials(wheel, time), indent=2, sort_keys=True) + "\n")
    checksums = output / "SHA256SUMS"
    made = sorted((source, wheel, inventory))
    checksums.write_text("".join(f"{_sha256(one)}  {one.name}\n" for one in made))
    return checksums


def _git(root: Path, *arguments: str) -> str:
    run = subprocess.run(
        ["git", "-C", root, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    if run.returncode:
        raise Refused(f"the files and the time of a release come from git: {run.stderr.strip()}")
    return run.stdout.strip()


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o755 if source.stat().st_mode & 0o100 else 0o644)


def _write_man_pages(sources: Path) -> None:
    if not (sources / "rewound" / "cli" / "man.py").exists():
        return  # a test releases a few modules
    environment = os.environ | {"PYTHONPATH": str(sources), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "80"}
    command = [sys.executable, "-P", "-m", "rewound.cli.man", str(sources / "man")]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    if run.returncode:
        raise Refused(f"man pages: {run.stderr}")


def _build(what: str, sources: Path, output: Path, time: int) -> str:
    """Call setuptools in `sources`; return the name of the file that it wrote."""
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(time), "TZ": "UTC"}
    command = [sys.executable, "-P", "-c", _BUILD, what, str(output)]
    run = subprocess.run(
        command,
        cwd=sources,
        env=environment,
        umask=0o022,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if run.returncode:
        raise Refused(f"{what}: {run.stderr}")
    return run.stdout.split()[-1]


def _pack_again(built: Path, target: Path, time: int) -> None:
    """Write the files of an archive of setuptools sorted, with fixed times, modes and owners."""
    packed = io.BytesIO()
    with tarfile.open(built) as old, tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new:
        for member in sorted(old.getmembers(), key=lambda one: one.name):
            if not member.isfile():
                continue  # folders: whoever unpacks creates them
            mode = 0o755 if member.mode & 0o100 else 0o644
            fixed = member.replace(mtime=time, mode=mode, uid=0, gid=0, uname="", gname="", deep=False)
            fixed.pax_headers = {}
            new.addfile(fixed, old.extractfile(member))
    with target.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=time) as compressed:
        compressed.write(packed.getvalue())


def bill_of_materials(wheel: Path, time: int) -> dict[str, Any]:
    """Everything that pip installs with the wheel, in the versions of this environment, which the tests ran with."""
    (root,) = distributions(path=[str(wheel)])
    needed = _needed(root)
    components = [_component(*needed[name]) for name in sorted(needed)]
    own = _component(root, False) | {
        "hashes": [{"alg": "SHA-256", "content": _sha256(wheel)}],
        "type": "application",
    }
    graph = [("rewound", root, EXTRAS), *((name, needed[name][0], ()) for name in sorted(needed))]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, _sha256(wheel))}",
        "metadata": {"timestamp": datetime.fromtimestamp(time, UTC).isoformat(), "component": own},
        "components": components,
        "dependencies": [
            {
                "ref": _purl(found),
                "dependsOn": sorted(
                    {_purl(needed[one][0]) for one, _ in _requirements(found, extras) if one in needed}
                ),
            }
            for _, found, extras in graph
        ],
    }


def _needed(root: Distribution) -> dict[str, tuple[Distribution, bool]]:
    """By name: what `rewound` needs, directly or not, and whether only with an extra."""
    found: dict[str, tuple[Distribution, bool]] = {}
    for optional, first in ((False, ()), (True, EXTRAS)):
        waiting = list(_requirements(root, first))
        while waiting:
            name, extras = waiting.pop()
            if name in found:
                continue
            try:
                found[name] = (distribution(name), optional)
            except PackageNotFoundError:
                raise Refused(f"{name} is not installed: `make setup` installs everything") from None
            waiting += _requirements(found[name][0], extras)
    return found


def _requirements(of: Distribution, extras: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The packages that a package needs on this platform, with these extras of it."""
    for text in of.requires or ():
        one = Requirement(text)
        chosen = ("", *extras)
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in chosen):
            yield canonicalize_name(one.name), tuple(sorted(one.extras))


def _component(of: Distribution, optional: bool) -> dict[str, Any]:
    licence = of.metadata.get("License-Expression") or of.metadata.get("License") or ""
    named = {"licenses": [{"license": {"name": licence.splitlines()[0]}}]} if licence else {}
    return {
        "type": "library",
        "bom-ref": _purl(of),
        "purl": _purl(of),
        "name": canonicalize_name(of.metadata["Name"]),
        "version": of.version,
        "scope": "optional" if optional else "required",
        **named,
    }


def _purl(of: Distribution) -> str:
    return f"pkg:pypi/{canonicalize_name(of.metadata['Name'])}@{of.version}"


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
