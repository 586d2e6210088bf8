"""`python -m benchmarks.run`: measure a server of ours, or any server of this API on this machine, or both.

One run is every chosen workload on every server in turn, each right after its floor, then the journal and
ownership by themselves; what one workload leaves behind (a filled collection) the next one uses. Writes JSON, tables
and charts.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from subprocess import TimeoutExpired
from typing import TypeVar

from benchmarks.archive import Archive
from benchmarks.baselines.ratios import Floors
from benchmarks.loads.client import Refused
from benchmarks.loads.job import LoadFailed
from benchmarks.options import Options, parse
from benchmarks.reports.charts import charts
from benchmarks.reports.growth import with_growth
from benchmarks.reports.measurement import Measurement
from benchmarks.reports.report import BOOKS, JOURNAL, OURS, Measured, Report
from benchmarks.reports.table import row, tables
from benchmarks.servers.machine import file_system, machine
from benchmarks.servers.server import DidNotStart, Server, fresh_folder
from benchmarks.servers.site import Site
from benchmarks.servers.target import Target
from benchmarks.workloads.catalog import OF_BOOKS, OF_JOURNALS, OF_SERVERS, NoSuchWorkload, chosen, titles
from benchmarks.workloads.workload import Skipped, Workload

Ground = TypeVar("Ground")


class Run:
    """Collects what each ground gave; a workload that fails is left out with its reason, not the run."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._works = chosen(options)
        self._titles = titles(options)
        self._floors = Floors(options)

    def perform(self) -> Report:
        here = machine(self._options.scratch)
        subjects = self._servers() + self._journal() + self._books()
        return Report(self._options, here, self._titles, self._floors.latest, tuple(subjects))

    def _servers(self) -> list[Measured]:
        workloads = self._chosen(OF_SERVERS)
        if not workloads:
            return []
        with sites(self._options) as grounds:
            accounts = [Account(site.name, site.version, site.target.tls, self._titles) for site in grounds]
            for workload in workloads:
                self._floors.prepare(workload.name)
                for site, account in zip(grounds, accounts, strict=True):
                    account.take(workload, site, self._floors)
            return [account.measured() for account in accounts]

    def _journal(self) -> list[Measured]:
        workloads = self._chosen(OF_JOURNALS)
        if not workloads or self._another_alone:
            return []
        archive = Archive(self._options)
        account = Account(JOURNAL, "", True, self._titles)
        try:
            for workload in workloads:
                self._floors.prepare(workload.name)
                account.take(workload, archive, self._floors)
        finally:
            archive.close()
        return [account.measured()]

    def _books(self) -> list[Measured]:
        workloads = self._chosen(OF_BOOKS)
        if not workloads or self._another_alone:
            return []
        account = Account(BOOKS, "", True, self._titles)
        for workload in workloads:
            account.take(workload, self._options.sizes, self._floors)
        return [account.measured()]

    @property
    def _another_alone(self) -> bool:
        """Somebody else's server is measured, so nothing of ours is unless it was named."""
        return bool(self._options.url and not self._options.both and not self._options.only)

    def _chosen(self, workloads: Iterable[Workload[Ground]]) -> list[Workload[Ground]]:
        return [each for each in workloads if each.name in self._works]


class Account:
    """The measurements of one ground as they come in."""

    def __init__(self, name: str, version: str, tls: bool, titles: dict[str, str]) -> None:
        self._name, self._version, self._tls, self._titles = name, version, tls, titles
        self._measurements: dict[str, Measurement] = {}
        self._skipped: dict[str, str] = {}

    def take(self, workload: Workload[Ground], ground: Ground, floors: Floors) -> None:
        title = self._titles[workload.name]
        try:
            measurement = floors.hold(workload.run(ground), tls=self._tls)
        except (Skipped, LoadFailed, Refused, DidNotStart, TimeoutExpired, OSError) as why:
            self._skipped[workload.name] = str(why)
            say(f"{self._name}: {title}: left out: {why}")
        else:
            self._measurements[workload.name] = measurement
            say(f"{self._name}: " + "  ".join(filter(None, row(measurement, title))))

    def measured(self) -> Measured:
        complete = with_growth(self._measurements)
        return Measured(self._name, self._version, self._tls, complete, self._skipped)


@contextmanager
def sites(options: Options) -> Iterator[list[Site]]:
    """The servers of this run. Ours is stopped and its data removed; another one is cleaned of ours."""
    with ExitStack() as stack:
        grounds: list[Site] = []
        if not options.url or options.both:
            folder = fresh_folder(options.scratch, "server")
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            server = Server(folder, dialect=options.dialect, command=options.rewound)
            stack.callback(server.stop)
            grounds.append(Site(server.target, options, name=OURS, server=server))
        if options.url:
            target = Target.parse(options.url, token=options.token, pids=options.pids)
            site = Site(target, options, name=options.name)
            stack.callback(site.clean)
            grounds.append(site)
        yield grounds


def write(report: Report) -> list[str]:
    options = report.options
    options.out.mkdir(parents=True, exist_ok=True)
    name = options.save or "latest"
    files = {f"{name}.json": json.dumps(report.document(), indent=1) + "\n"}
    files |= {f"{name}{ending}.svg": chart for ending, chart in charts(report).items()}
    for file, content in files.items():
        (options.out / file).write_text(content)
    return [os.path.relpath(options.out / file) for file in files]


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    try:
        if options.list:
            print("\n".join(f"{name:18} {title}" for name, title in titles(options).items()))
            return 0
        if options.url:
            Target.parse(options.url, token=options.token)
        run = Run(options)
        options.scratch.mkdir(parents=True, exist_ok=True)
        if file_system(options.scratch) == "tmpfs":
            say("the scratch folder is in memory: commits look cheaper than they are (--scratch DIR)")
        report = run.perform()
    except (ValueError, DidNotStart, LoadFailed, Refused, OSError) as problem:
        say(f"benchmarks: {problem}")
        return 2 if isinstance(problem, ValueError | NoSuchWorkload) else 1
    print(tables(report))
    print("\nwritten: " + ", ".join(write(report)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
