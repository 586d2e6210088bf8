"""A process that the parent of `rewound serve --workers` starts: the writer process, or a worker.

    python -m rewound.cli.child ROLE FLAG...

The role is JSON (`workers.roles`), the flags are those of `serve`.
"""

from __future__ import annotations

import gc
import socket
import sys

import trio

from rewound.actors.kinds.schema import pydantic_decoder
from rewound.gateway.settings.checks import SettingsError
from rewound.gateway.settings.settings import Settings
from rewound.server.background_imports import import_used_later
from rewound.server.flags.parser import parse_flags
from rewound.server.logs import print_error
from rewound.server.process import raise_file_limit, run_configured
from rewound.workers.parent_link import ParentLink
from rewound.workers.roles import WRITER, Role


def main() -> int:
    role = Role.decode(sys.argv[1])
    gc.disable()
    try:
        settings, _ = parse_flags(sys.argv[2:])
    except SettingsError as error:
        print_error(str(error))
        return 2

    def run() -> int:
        trio.run(_run, settings, role)
        return 0

    return run_configured(settings, run)


async def _run(settings: Settings, role: Role) -> None:
    raise_file_limit()
    with socket.socket(fileno=role.parent) as parent, pydantic_decoder.postponed():
        link = ParentLink(parent)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(link.follow)

            async def ready() -> None:
                gc.freeze()
                gc.enable()
                await link.report_ready()
                nursery.start_soon(import_used_later)

            if role.name == WRITER:
                from rewound.workers.writer import run_writer

                await run_writer(settings, role, ready, link)
            else:
                from rewound.workers.worker import run_worker

                await run_worker(settings, role, ready, link)
            nursery.cancel_scope.cancel()


if __name__ == "__main__":
    sys.exit(main())
