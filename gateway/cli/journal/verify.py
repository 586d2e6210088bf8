"""`rewound journal verify`: check every record.

It reads every record and replays all events, from the first one and from the newest snapshot, and compares the
result with state, indexes and counts. Exit code 1 when anything differs.
"""

from __future__ import annotations

from gateway.cli.journal.printing.output import Output
from gateway.cli.journal.printing.progress import Progress
from gateway.cli.journal.query.flags import Options, Parser, add_output
from gateway.cli.journal.query.folder import JOURNAL
from journal.log import Journal
from journal.verify import Report
from journal.verify import verify as verify_journal


def add_flags(parser: Parser) -> None:
    add_output(parser, "json")


def run(options: Options, output: Output) -> int:
    # Every other command refuses a journal with a damaged tail; this one reports the damage.
    journal = Journal.open(options.data_dir / JOURNAL, readonly=True, check_tail=False)
    try:
        report = _verified(journal)
    finally:
        journal.close()
    (_print_document if options.output == "json" else _print)(output, report)
    return 0 if report.sound else 1


def _verified(journal: Journal) -> Report:
    with journal.read() as view:
        databases = (view.databases.events, view.databases.state)
        total = sum(view.txn.stat(database)["entries"] for database in databases)
        with Progress("verify", total) as progress:
            return verify_journal(view, progress)


def _print(output: Output, report: Report) -> None:
    output.line(f"{report.events} events, {report.rows} objects, {report.snapshots} snapshots")
    for difference in report.differences:
        output.line(output.paint(f"wrong: {difference}", "red"))
    if report.sound:
        output.line(output.paint("sound", "green"))
    else:
        output.line(f"{report.wrong} wrong: restore the folder from a backup")


def _print_document(output: Output, report: Report) -> None:
    output.json(
        {
            "sound": report.sound,
            "events": report.events,
            "objects": report.rows,
            "snapshots": report.snapshots,
            "wrong": report.wrong,
            "differences": report.differences,
        }
    )
