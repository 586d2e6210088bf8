"""Copies the journal of a server into a backup or a temporary folder, over the feed that standbys use."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import trio

from rewound.cli.access.flags import Options
from rewound.cli.command import cancel_on_signal, only_error
from rewound.client.kubeconfig import Overrides, load_target
from rewound.client.streaming import StreamingSession
from rewound.cluster.standby.follower import Follower
from rewound.cluster.standby.sinks import BackupSink
from rewound.journal.backup import BackupFile, restore_backup
from rewound.recording.progress import Progress
from rewound.recording.query.folder import Folder, open_folder

_LOOK = 0.2  # seconds between two looks at how far a copy is


def follow_into(
    file: BackupFile, options: Options, server: str, progress: Progress, caught_up: Callable[[], bool]
) -> None:
    """Append what the server commits to a backup. Ends if `caught_up`, called when it has everything, returns True."""
    target = load_target(
        Overrides(
            kubeconfig=options.kubeconfig,
            context=options.context,
            server=server,
            certificate_authority=options.certificate_authority,
            token=options.token,
            impersonated_user=options.as_user,
            impersonated_groups=tuple(options.as_group),
        )
    )

    async def run() -> None:
        session = StreamingSession(target)
        follower = Follower(session, BackupSink(file, target.server))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancel_on_signal, nursery.cancel_scope)
            nursery.start_soon(follower.run)
            try:
                while not follower.caught_up.is_set():
                    progress(file.head)
                    with trio.move_on_after(_LOOK):
                        await follower.caught_up.wait()
                if caught_up():
                    nursery.cancel_scope.cancel()
                await trio.sleep_forever()
            finally:
                with trio.move_on_after(2, shield=True):
                    await session.aclose()

    try:
        trio.run(run)
    except BaseExceptionGroup as group:
        raise only_error(group) from group
    finally:
        file.close()


@contextmanager
def copy_of_server(options: Options) -> Iterator[Folder]:
    """Copy the current journal of a server into a temporary folder. Raises ClientError or JournalError."""
    with tempfile.TemporaryDirectory(prefix="rewound-") as temporary:
        path = Path(temporary) / "backup"
        complete = False

        def caught_up() -> bool:
            nonlocal complete
            complete = True
            return True

        with Progress("reading the journal of the server") as progress:
            follow_into(BackupFile(path), options, options.server, progress, caught_up)
        if not complete:
            raise KeyboardInterrupt  # a signal ended it
        restore_backup(path, Path(temporary) / "journal")
        with open_folder(Path(temporary)) as folder:
            yield folder
