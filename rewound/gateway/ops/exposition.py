"""The text of /metrics in the Prometheus format, written from a snapshot of the numbers.

Runs in a worker thread, because thousands of lines take milliseconds. Numbers, labels and families are written like
Go's client library writes them, so that `le="1"` in a dashboard's rule matches here too. Rejected: prometheus_client,
which writes `le="1.0"`, gives every counter the suffix `_total`, and takes 200 ms and 13 MB to import.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Final, Literal

import msgspec

Kind = Literal["counter", "gauge", "histogram"]
# How the values of several processes are combined: their sum, the largest, the smallest, or that of the process that
# writes, which alone reads it.
Across = Literal["sum", "max", "min", "writer"]
# One number, or one for each value of the label (a tuple for several labels).
Value = (
    float
    | Mapping[str, float]
    | Mapping[tuple[str, str], float]
    | Mapping[tuple[str, str, str], float]
    | Mapping[tuple[str, ...], float]
)
Read = Callable[[], Value]
Buckets = tuple[int, ...]
# By labels: the sum of the observations, and for each bound how many were up to it and above the one before.
Distributions = Mapping[tuple[str, ...], tuple[float, Buckets]]
_PROC: Final = Path("/proc")


class Family(msgspec.Struct, frozen=True):
    """A counter or a gauge."""

    name: str
    text: str
    kind: Kind
    labels: tuple[str, ...] = ()
    across: Across = "sum"


class Histogram(msgspec.Struct, frozen=True):
    """A histogram; those of several processes add up."""

    name: str
    text: str
    bounds: tuple[float, ...]
    labels: tuple[str, ...]


class Snapshot(msgspec.Struct, frozen=True, eq=False):
    """The numbers at one moment."""

    values: Sequence[tuple[Family, Value]]
    distributions: Sequence[tuple[Histogram, Distributions]] = ()


def exposition(snapshot: Snapshot) -> bytes:
    families = {family.name: _family(family, value) for family, value in snapshot.values}
    families |= {histogram.name: _histogram(histogram, found) for histogram, found in snapshot.distributions}
    return "".join(line for name in sorted(families) for line in families[name]).encode()


def number_text(value: float) -> str:
    """A number as Go writes it: the shortest text, with an exponent from a million up and below a ten-thousandth."""
    if abs(value) < 1e6:
        return str(int(value)) if value == int(value) else repr(value)
    found = Decimal(repr(float(value)))
    digits = "".join(map(str, found.as_tuple().digits)).rstrip("0")
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{'-' if value < 0 else ''}{mantissa}e+{found.adjusted():02d}"


def _head(name: str, text: str, kind: Kind) -> str:
    return f"# HELP {name} {text}\n# TYPE {name} {kind}\n"


def labelled(value: Value) -> list[tuple[tuple[str, ...], float]]:
    """The numbers by the values of all labels: none, one or several."""
    if not isinstance(value, Mapping):
        return [((), value)]
    return [((names,) if isinstance(names, str) else names, number) for names, number in value.items()]


def _family(family: Family, value: Value) -> Iterator[str]:
    yield _head(family.name, family.text, family.kind)
    label = _labeler(family.labels)
    for names, number in sorted(labelled(value)):
        labels = f"{{{label(names)}}}" if names else ""
        yield f"{family.name}{labels} {number_text(number)}\n"


def _histogram(histogram: Histogram, found: Distributions) -> Iterator[str]:
    name = histogram.name
    yield _head(name, histogram.text, "histogram")
    label = _labeler(histogram.labels)
    bounds = [*map(number_text, histogram.bounds), "+Inf"]
    for names, (total, buckets) in sorted(found.items()):
        labels = label(names)
        separator = "," if labels else ""
        count = 0
        for bound, more in zip(bounds, buckets, strict=True):
            count += more
            yield f'{name}_bucket{{{labels}{separator}le="{bound}"}} {number_text(count)}\n'
        suffix = f"{{{labels}}}" if labels else ""
        yield f"{name}_sum{suffix} {number_text(total)}\n"
        yield f"{name}_count{suffix} {number_text(count)}\n"


def _labeler(labels: tuple[str, ...]) -> Callable[[Sequence[str]], str]:
    """The function that writes values of these labels, in alphabetical order."""
    order = sorted(range(len(labels)), key=labels.__getitem__)
    return lambda names: ",".join([f'{labels[index]}="{_escaped(names[index])}"' for index in order])


def _escaped(text: str) -> str:
    if "\\" in text or '"' in text or "\n" in text:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return text


def of_this_process() -> list[tuple[Family, Value]]:
    """What Linux reports about this process; nothing on other systems."""
    try:
        stat = (_PROC / "self" / "stat").read_bytes().rpartition(b")")[2].split()
        booted = next(
            line for line in (_PROC / "stat").read_bytes().splitlines() if line.startswith(b"btime")
        )
        files = len(os.listdir(_PROC / "self" / "fd"))
    except (OSError, StopIteration):
        return []
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    user, system, started, virtual, resident = (int(stat[index]) for index in (11, 12, 19, 20, 21))
    began = int(booted.split()[1]) + started / ticks
    # Limits are per process, so the process with the most open files counts.
    values: list[tuple[str, str, float, Kind, Across]] = [
        ("cpu_seconds_total", "Processor time in seconds.", (user + system) / ticks, "counter", "sum"),
        ("open_fds", "Open file descriptors.", files, "gauge", "max"),
        (
            "max_fds",
            "Most file descriptors that may be open.",
            _limit(resource.RLIMIT_NOFILE),
            "gauge",
            "max",
        ),
        ("virtual_memory_bytes", "Size of the address space.", virtual, "gauge", "max"),
        (
            "virtual_memory_max_bytes",
            "Largest address space allowed.",
            _limit(resource.RLIMIT_AS),
            "gauge",
            "max",
        ),
        ("resident_memory_bytes", "Memory that is present.", resident * page, "gauge", "sum"),
        ("start_time_seconds", "When the process began, in seconds since 1970.", began, "gauge", "min"),
    ]
    return [
        (Family(f"process_{name}", text, kind, across=across), value)
        for name, text, value, kind, across in values
    ]


def _limit(which: int) -> float:
    """The current limit; Go's value if there is none."""
    found = resource.getrlimit(which)[0]
    return 2.0**64 if found == resource.RLIM_INFINITY else found
