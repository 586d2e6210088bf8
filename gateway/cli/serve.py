"""`rewound serve`: parse the flags, run the server, and report a failed start in one sentence."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from typing import Final

from actors.certificates.issuing_process import begin_early
from gateway.cli.banner import banner
from gateway.cli.flags.parser import parse_flags
from gateway.settings.checks import SettingsError
from gateway.settings.settings import Addresses, Settings

# Seconds after which a thread that computes gives the interpreter lock to the event loop: a tenth of Python's default,
# because every system call of the event loop releases the lock.
SWITCH_INTERVAL: Final = 0.0005
# A large body has some hundred thousand containers without cycles: by Python's default, decoding one would begin full
# collections in its middle, which hold the interpreter lock for 30 to 80 ms to find nothing.
COLLECT_AFTER: Final = (20_000, 50, 50)


def serve(arguments: Sequence[str]) -> int:
    try:
        settings, warnings = parse_flags(arguments)
    except SettingsError as error:
        _print_error(str(error))
        return 2
    for warning in warnings:
        _print_error(f"warning: {warning}")
    return _run(settings)


def _run(settings: Settings) -> int:
    needs_certificates = bool(settings.secure_binds) and not (settings.pki / "ca.crt").exists()
    with begin_early(wanted=needs_certificates):
        return _serve(settings)


def _serve(settings: Settings) -> int:
    # Imported only now: reporting a wrong flag should not take as long as a start.
    import trio

    from gateway.cli.failures import explain
    from gateway.cli.logs import configure_logging
    from gateway.cli.malloc import configure_malloc
    from gateway.cli.memory_faults import explain_memory_faults
    from gateway.cli.process import serve_until_signal, write_pid_file

    configure_malloc()
    sys.setswitchinterval(SWITCH_INTERVAL)
    gc.set_threshold(*COLLECT_AFTER)
    explain_memory_faults(settings.journal)
    try:
        configure_logging(settings)
        write_pid_file(settings)
    except SettingsError as error:
        _print_error(str(error))
        return 2

    def announce(addresses: Addresses) -> None:
        gc.freeze()
        gc.enable()
        print(banner(settings, addresses), flush=True)

    try:
        if settings.enable_test_controls:
            from gateway.testing.clock import AdvancingClock

            clock = AdvancingClock()
            trio.run(serve_until_signal, settings, announce, clock, clock=clock.deadlines)
        else:
            trio.run(serve_until_signal, settings, announce)
    except KeyboardInterrupt:
        return 130
    except BaseException as error:
        explanation = explain(error, settings)
        if explanation is None:
            raise
        _print_error(explanation)
        return 1
    return 0


def _print_error(text: str) -> None:
    print(f"rewound: {text}", file=sys.stderr, flush=True)
