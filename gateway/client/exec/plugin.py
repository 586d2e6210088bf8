"""Runs the credential plugin of a user and keeps what it returns.

A credential is kept until it expires, until the server rejects it with 401, or until the process ends. One lock covers
the run and the cache: threads that need a credential at the same time share one run. A 401 drops a credential only if
it is still the one in the cache, so late responses to requests with an older one start no further run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from gateway.client.credentials import Credential
from gateway.client.errors import CredentialError
from gateway.client.exec.config import ALWAYS, NEVER, ExecConfig
from gateway.client.exec.messages import Issued, exec_info, parse_output

_RUNNING = "REWOUND_EXEC_PLUGINS"  # in the environment of a plugin


class ExecPlugin:
    """A CredentialSource. `cluster` is passed to the plugin with provideClusterInfo."""

    def __init__(
        self,
        config: ExecConfig,
        cluster: Mapping[str, Any],
        *,
        standard_input: TextIO | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._config, self._cluster = config, cluster
        self._standard_input = standard_input or sys.stdin
        self._now = now
        self._lock = threading.Lock()
        self._issued: Issued | None = None

    def credential(self) -> Credential:
        with self._lock:
            if self._issued is None or self._expired(self._issued):
                self._issued = None
                self._issued = self._run()
            return self._issued.credential

    def rejected(self, credential: Credential) -> None:
        with self._lock:
            if self._issued is not None and self._issued.credential is credential:
                self._issued = None

    def _expired(self, issued: Issued) -> bool:
        return issued.expires is not None and self._now() >= issued.expires

    def _run(self) -> Issued:
        interactive = self._interactive()
        command = self._executable()
        environment = {
            **os.environ,
            **dict(self._config.environment),
            self._config.info_variable: exec_info(self._config, self._cluster, interactive=interactive),
            _RUNNING: self._running(),
        }
        try:
            # Standard error is the user's: plugins write prompts and reasons there.
            ended = subprocess.run(
                [command, *self._config.arguments],
                env=environment,
                stdin=self._standard_input if interactive else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                check=False,
            )
        except FileNotFoundError as error:
            raise self._not_found() from error
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "a null byte in its arguments"
            raise self._failed(f"cannot be run: {reason}; make it executable") from error
        if ended.returncode:
            raise self._failed(f"failed with exit code {ended.returncode}; see what it wrote above")
        return parse_output(self._config, ended.stdout)

    def _running(self) -> str:
        """The plugins that run, with this one: a plugin that needs itself would start processes for ever."""
        running = [one for one in os.environ.get(_RUNNING, "").split("\n") if one]
        if self._config.source in running:
            raise self._failed(
                "needs itself: it calls a command that reads the same kubeconfig file; give that command another one "
                "with --kubeconfig"
            )
        return "\n".join([*running, self._config.source])

    def _interactive(self) -> bool:
        """Whether the plugin gets standard input."""
        mode = self._config.interactive_mode
        if mode == NEVER:
            return False
        terminal = _is_terminal(self._standard_input)
        if mode == ALWAYS and not terminal:
            raise CredentialError(
                f"{self._config.source}: exec plugin cannot support interactive mode: standard input is not a "
                "terminal; run the command in one"
            )
        return terminal

    def _executable(self) -> str:
        command = self._config.command
        if "/" in command:
            return command
        found = shutil.which(command)
        if found is None:
            raise self._not_found()
        if not os.path.isabs(found):
            # Whoever may write to the current folder must not choose the program.
            raise self._failed("is found in a relative folder of PATH; give the path of the plugin")
        return found

    def _not_found(self) -> CredentialError:
        hint = self._config.install_hint
        text = f"{self._config.source}: exec: executable {self._config.command} not found"
        return CredentialError(f"{text}\n\n{hint}" if hint else f"{text}; install it, or correct the command")

    def _failed(self, what: str) -> CredentialError:
        return CredentialError(f"{self._config.source}: exec: executable {self._config.command} {what}")


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        # Closed.
        return False
