"""Opens what the flags of a command name: a server, a data folder or a file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rewound.cli.access.flags import Options, open_session
from rewound.cli.journal.flags import DATA_DIR
from rewound.client.errors import ClientError, StatusError, UsageError
from rewound.recording.query.source import JOURNAL, Source

_INSTEAD = "a data folder is read with --data-dir, a file with --file"
_OF_SERVERS = ("kubeconfig", "context", "server", "certificate_authority", "token", "as_user", "as_group")


def server_flag(options: Options) -> str:
    """The first given flag that chooses a server or a user; empty if there is none."""
    for name in _OF_SERVERS:
        if getattr(options, name, None):
            return "--" + name.removesuffix("_user").replace("_", "-")
    return ""


def folder_of(options: Options) -> Path | None:
    """The data folder to read; None for a server.

    It is that of --data-dir; without the flag ./rewound-data, if it exists and neither a flag nor $KUBECONFIG names a
    server.
    """
    flag = server_flag(options)
    if options.data_dir is not None or options.file is not None:
        given = "--data-dir" if options.data_dir is not None else "--file"
        if flag:
            # These choose a user, and a folder has none: who can read it can read everything in it.
            raise UsageError(f"{flag}: has no effect with {given}; leave one of them out")
        if options.data_dir is not None and options.file is not None:
            raise UsageError("--file: names what to read, and so does --data-dir; leave one of them out")
        return Path(options.data_dir) if options.data_dir is not None else None
    if flag or os.environ.get("KUBECONFIG") or not (DATA_DIR / JOURNAL).is_dir():
        return None
    return DATA_DIR


@contextmanager
def open_source(options: Options, *, writes: bool = False) -> Iterator[Source]:
    """Open a server, folder or file. `writes`: without a flag, it is a server.

    Each is imported when it is used: most commands read a server, which needs neither LMDB nor the folder's kinds.
    """
    folder = folder_of(options)
    if writes and options.data_dir is None:
        folder = None
    if folder is not None or options.file is not None:
        from rewound.recording.query.folder import open_file, open_folder
        from rewound.recording.query.folder_source import FolderSource
        from rewound.server.memory_faults import explain_memory_faults

        explain_memory_faults(folder or options.file)
        with open_folder(folder) if folder is not None else open_file(options.file) as opened:
            yield FolderSource(opened)
        return
    from rewound.recording.query.server_source import ServerSource

    try:
        with open_session(options) as session:
            yield ServerSource(session)
    except StatusError:
        raise
    except ClientError as error:
        raise ClientError(f"{error}; {_INSTEAD}") from error
