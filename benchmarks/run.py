"""`python -m benchmarks.run` measures a server of ours, another server of this API on this machine, or both.

A run performs every chosen workload on each server in turn, right after measuring that workload's baseline, and then
the workloads of the journal and of field ownership. Later workloads reuse what earlier ones leave behind (a filled
collection). The run writes JSON, tables and charts.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from subprocess import TimeoutExpired
from typing import TypeVar

from benchmarks.baselines.ratios import Baselines
from benchmarks.large_journal import LargeJournal
from benchmarks.loads.client import Refused
from benchmarks.loads.job import LoadFailed
from benchmarks.options import Options, parse
from benchmarks.reports.charts import charts
from benchmarks.reports.growth import with_growth
from benchmarks.reports.measurement import Measurement
from benchmarks.reports.report import BEFORE, JOURNAL, OURS, OWNERSHIP, Report, SubjectResults
from benchmarks.reports.table import row, tables
from benchmarks.servers.endpoint import Endpoint
from benchmarks.servers.machine import file_system, machine
from benchmarks.servers.measured_server import MeasuredServer
from benchmarks.servers.release import earlier, write_source
from benchmarks.servers.server_process import DidNotStart, ServerProcess, fresh_folder
from benchmarks.workloads.catalog import (
    JOURNAL_WORKLOADS,
    OWNERSHIP_WORKLOADS,
    SERVER_WORKLOADS,
    NoSuchWorkload,
    chosen,
    titles,
)
from benchmarks.workloads.workload import AnyWorkload, Skipped

Subject = TypeVar("Subject")


class Run:
    """Runs the chosen workloads. A workload that fails is reported as skipped, with its reason; the run continues."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._names = chosen(options)
        self._titles = titles(options)
        self._baselines = Baselines(options)

    def perform(self) -> Report:
        here = machine(self._options.scratch)
        subjects = self._servers() + self._journal() + self._ownership()
        return Report(self._options, here, self._titles, self._baselines.latest, tuple(subjects))

    def _servers(self) -> list[SubjectResults]:
        workloads = self._chosen(SERVER_WORKLOADS)
        if not workloads:
            return []
        with measured_servers(self._options) as servers:
            collectors = [
                ResultsCollector(server.name, server.version, server.endpoint.tls, self._titles)
                for server in servers
            ]
            for workload in workloads:
                self._baselines.measure_for(workload.name)
                for server, collector in zip(servers, collectors, strict=True):
                    collector.run(workload, server, self._baselines)
            return [collector.results() for collector in collectors]

    def _journal(self) -> list[SubjectResults]:
        workloads = self._chosen(JOURNAL_WORKLOADS)
        if not workloads or self._only_other_server:
            return []
        large_journal = LargeJournal(self._options)
        collector = ResultsCollector(JOURNAL, "", True, self._titles)
        try:
            for workload in workloads:
                self._baselines.measure_for(workload.name)
                collector.run(workload, large_journal, self._baselines)
        finally:
            large_journal.close()
        return [collector.results()]

    def _ownership(self) -> list[SubjectResults]:
        workloads = self._chosen(OWNERSHIP_WORKLOADS)
        if not workloads or self._only_other_server:
            return []
        collector = ResultsCollector(OWNERSHIP, "", True, self._titles)
        for workload in workloads:
            collector.run(workload, self._options.sizes, self._baselines)
        return [collector.results()]

    @property
    def _only_other_server(self) -> bool:
        """With --url alone, the journal and ownership are measured only when --only names them."""
        return bool(self._options.url and not self._options.both and not self._options.only)

    def _chosen(self, workloads: Iterable[AnyWorkload[Subject]]) -> list[AnyWorkload[Subject]]:
        sizes = self._options.sizes
        return [each for each in workloads if self._names.intersection(each.titles_for(sizes))]


class ResultsCollector:
    """Runs workloads on one subject (a server, the journal, field ownership) and collects their measurements."""

    def __init__(self, name: str, version: str, tls: bool, titles: dict[str, str]) -> None:
        self._name, self._version, self._tls, self._titles = name, version, tls, titles
        self._measurements: dict[str, Measurement] = {}
        self._skipped: dict[str, str] = {}

    def run(self, workload: AnyWorkload[Subject], subject: Subject, baselines: Baselines) -> None:
        try:
            measured = workload.measure(subject)
        except (Skipped, LoadFailed, Refused, DidNotStart, TimeoutExpired, OSError) as why:
            self._skipped[workload.name] = str(why)
            log(f"{self._name}: {self._titles[workload.name]}: skipped: {why}")
            return
        for each in measured:
            measurement = baselines.with_ratio(each, tls=self._tls)
            self._measurements[each.work] = measurement
            log(f"{self._name}: " + "  ".join(filter(None, row(measurement, self._titles[each.work]))))

    def results(self) -> SubjectResults:
        complete = with_growth(self._measurements)
        return SubjectResults(self._name, self._version, self._tls, complete, self._skipped)


@contextmanager
def measured_servers(options: Options) -> Iterator[list[MeasuredServer]]:
    """The servers of this run. On exit, stops ours and deletes its data, and deletes our objects from the other one."""
    with ExitStack() as stack:
        servers: list[MeasuredServer] = []
        if not options.url or options.both:
            folder = fresh_folder(options.scratch, "server")
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            process = ServerProcess(folder, dialect=options.dialect, command=options.rewound)
            stack.callback(process.stop)
            servers.append(MeasuredServer(process.endpoint, options, name=OURS, process=process))
        if options.before and servers:
            servers.append(_earlier_server(options, stack))
        if options.url:
            endpoint = Endpoint.parse(options.url, token=options.token, pids=options.pids)
            other = MeasuredServer(endpoint, options, name=options.name)
            stack.callback(other.delete_objects)
            servers.append(other)
        yield servers


def _earlier_server(options: Options, stack: ExitStack) -> MeasuredServer:
    """A server of ours, from the source of an earlier commit."""
    found = earlier(options.before)
    folder = fresh_folder(options.scratch, "before")
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    own = replace(options, rewound=write_source(found.commit, folder / "source"))
    process = ServerProcess(folder, dialect=options.dialect, command=own.rewound)
    stack.callback(process.stop)
    return MeasuredServer(process.endpoint, own, name=f"{BEFORE}{found.name}", process=process)


def write(report: Report) -> list[str]:
    options = report.options
    options.out.mkdir(parents=True, exist_ok=True)
    name = options.save or "latest"
    files = {f"{name}.json": json.dumps(report.document(), indent=1) + "\n"}
    files |= {f"{name}{suffix}.svg": chart for suffix, chart in charts(report).items()}
    for file, content in files.items():
        (options.out / file).write_text(content)
    return [os.path.relpath(options.out / file) for file in files]


def log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    try:
        if options.list:
            print("\n".join(f"{name:18} {title}" for name, title in titles(options).items()))
            return 0
        if options.url:
            Endpoint.parse(options.url, token=options.token)
        run = Run(options)
        options.scratch.mkdir(parents=True, exist_ok=True)
        if file_system(options.scratch) == "tmpfs":
            log("warning: the scratch folder is on tmpfs, where fsync costs nothing; use --scratch DIR")
        report = run.perform()
    except (ValueError, DidNotStart, LoadFailed, Refused, OSError) as problem:
        log(f"benchmarks: {problem}")
        return 2 if isinstance(problem, ValueError | NoSuchWorkload) else 1
    print(tables(report))
    print("\nwritten: " + ", ".join(write(report)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
