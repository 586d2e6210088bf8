"""Sends alerts: to a webhook, an Alertmanager, stdout, or as Events of Kubernetes into a cluster.

Each sink has a task and a bounded queue, so that a peer that hangs delays neither recording nor other sinks. An alert
is in the state of the folder before it is sent, and leaves it when the peer has accepted it: after a kill it is sent
again only if the process ended between the two. Alerts have ids, so that peers can know such a repetition; an
Alertmanager and the API server do: the alert has the same labels, the Event the same name.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TextIO

import httpx
import orjson
import trio

from rewound.actors.certificates.trust import InvalidBundle, verifying
from rewound.client.errors import ClientError, Failure, StatusError
from rewound.client.session import Session
from rewound.recording.query.moments import rfc3339
from rewound.recording.rules.engine import FIRING, Alert
from rewound.recording.rules.expressions import MICROS
from rewound.recording.rules.file import SinkOptions

Document = dict[str, Any]

MOST_WAITING: Final = 1_000  # alerts of one sink; of more, the oldest are dropped and counted
_BATCH: Final = 50  # alerts of one request
_SECONDS: Final = 10.0  # of one request
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 300.0
_REPEATED: Final = (
    60.0  # seconds between two reports of what fires: an Alertmanager forgets after five minutes
)
_MOST_RESPONSE: Final = 2_000  # characters of an error that are shown


class NotSent(Exception):
    """A peer did not accept alerts. `again`: it may later."""

    def __init__(self, message: str, *, again: bool = True) -> None:
        super().__init__(message)
        self.again = again


class BadSink(Failure):
    """A sink cannot be made: a file that it names is missing or invalid. It may be there later."""


class Sink(ABC):
    name: str
    repeats = False  # what fires is reported again and again

    @abstractmethod
    async def send(self, alerts: Sequence[Alert]) -> None:
        """Raises NotSent."""

    async def aclose(self) -> None:  # noqa: B027 - most have none
        """Close its connections."""


class Stdout(Sink):
    name = "stdout"

    def __init__(self, form: str, base: str, stream: TextIO | None = None) -> None:
        self._form, self._base, self._stream = form, base, stream or sys.stdout

    async def send(self, alerts: Sequence[Alert]) -> None:
        text = "".join(f"{self._line(one)}\n" for one in alerts)
        try:  # in a thread: nobody may read the pipe
            await trio.to_thread.run_sync(self._write, text, abandon_on_cancel=True)
        except (OSError, ValueError) as error:
            raise NotSent(f"stdout: {error}") from error

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()

    def _line(self, alert: Alert) -> str:
        if self._form == "json":
            return orjson.dumps(alert.document(self._base)).decode()
        return self._text(alert)

    def _text(self, alert: Alert) -> str:
        message = " ".join(alert.message.split())
        return f"{rfc3339(alert.time)} {alert.state} {alert.severity} {alert.rule}: {message}"


class _Posting(Sink):
    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        try:
            context = verifying(None if options.ca_file is None else options.ca_file.read_bytes())
        except (InvalidBundle, OSError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise BadSink(
                f"sinks: {options.kind}.caFile: {options.ca_file}: {why}; name a file of certificates in PEM form"
            ) from error
        self._client = httpx.AsyncClient(timeout=_SECONDS, verify=context, follow_redirects=False)

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _post(self, url: str, body: Any, headers: dict[str, str]) -> None:
        headers = {"content-type": "application/json", **headers}
        try:
            if self._options.token_file is not None:
                headers["authorization"] = f"Bearer {_token(self._options.token_file)}"
            with trio.fail_after(_SECONDS):  # of everything: a peer may send a byte a second
                async with self._client.stream(
                    "POST", url, content=orjson.dumps(body), headers=headers
                ) as got:
                    status = got.status_code
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, trio.TooSlowError) as error:
            # ValueError: a host name that cannot be encoded.
            raise NotSent(f"{url}: {error or type(error).__name__}") from error
        if status >= 300:
            raise NotSent(f"{url} responded with {status}", again=status in (408, 425, 429) or status >= 500)


def _token(file: Path) -> str:
    """Raises OSError, or NotSent without any of the content: it is a secret."""
    found = file.read_bytes().strip()
    if not found.isascii() or not (token := found.decode()).isprintable():
        raise NotSent(f"tokenFile {file}: is no token in one line; write it there")
    return token


class Webhook(_Posting):
    name = "webhook"

    def __init__(self, options: SinkOptions, base: str) -> None:
        super().__init__(options)
        self._base = base

    async def send(self, alerts: Sequence[Alert]) -> None:
        body = {"apiVersion": "rewound.cluster.io/v1alpha1", "kind": "Alerts"}
        items = [one.document(self._base) for one in alerts]
        await self._post(self._options.url, {**body, "items": items}, {"idempotency-key": _key(alerts)})


def _key(alerts: Sequence[Alert]) -> str:
    """The same for a repetition of one alert."""
    return ".".join(f"{one.id}-{one.state}" for one in alerts[:20])


class Alertmanager(_Posting):
    name = "alertmanager"
    repeats = True

    def __init__(self, options: SinkOptions, base: str) -> None:
        super().__init__(options)
        self._base = base

    async def send(self, alerts: Sequence[Alert]) -> None:
        await self._post(
            f"{self._options.url.rstrip('/')}/api/v2/alerts", [self._alert(one) for one in alerts], {}
        )

    def _alert(self, alert: Alert) -> Document:
        labels = {_label_name(name): value for name, value in alert.labels}
        document: Document = {
            "labels": {**labels, "alertname": alert.rule, "severity": alert.severity},
            "annotations": {"summary": alert.message, "id": alert.id},
            "startsAt": rfc3339(alert.started),
            "generatorURL": f"{self._base.rstrip('/')}{alert.fragment}",
        }
        if alert.state != FIRING:
            document["endsAt"] = rfc3339(alert.time)
        return document


def _label_name(name: str) -> str:
    """A name of a label of Prometheus; those that an alert itself has get another one."""
    found = "".join(one if one.isascii() and (one.isalnum() or one == "_") else "_" for one in name)
    if not found or found[0].isdigit() or found in ("alertname", "severity"):
        return f"group_{found}"
    return found


class Events(Sink):
    """Writes Events of events.k8s.io into the cluster about the objects; the account needs the right to create them."""

    name = "events"

    def __init__(self, session: Session, options: SinkOptions) -> None:
        self._session, self._namespace = session, options.namespace

    async def send(self, alerts: Sequence[Alert]) -> None:
        for one in alerts:
            namespace = one.namespace or self._namespace
            path = f"/api/v1/namespaces/{namespace}/events"
            try:
                await trio.to_thread.run_sync(
                    self._session.post, path, self._event(one, namespace), abandon_on_cancel=True
                )
            except StatusError as error:
                if error.code != 409:  # it is there since before a restart
                    again = error.code in (408, 429) or error.code >= 500
                    raise NotSent(str(error)[:_MOST_RESPONSE], again=again) from error
            except ClientError as error:
                raise NotSent(str(error)[:_MOST_RESPONSE]) from error

    def _event(self, alert: Alert, namespace: str) -> Document:
        when = rfc3339(alert.time)[:19] + "Z"
        resolved = "" if alert.state == FIRING else "Resolved"
        words = alert.rule.replace(".", "-").split("-")
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"rewound-{alert.id}-{alert.state}", "namespace": namespace},
            "involvedObject": {
                "kind": alert.kind,
                "name": alert.name,
                "namespace": alert.namespace,
                "resourceVersion": str(alert.version) if alert.version else "",
            },
            "type": "Normal" if resolved or alert.severity == "info" else "Warning",
            "reason": "".join(word.capitalize() for word in words) + resolved,
            "message": alert.message,
            "source": {"component": "rewound"},
            "firstTimestamp": rfc3339(alert.started)[:19] + "Z",
            "lastTimestamp": when,
            "count": 1,
        }


class Queue:
    """The alerts that one sink has not accepted yet."""

    def __init__(self, sink: Sink, changed: Callable[[], None], firing: Callable[[], list[Alert]]) -> None:
        """`changed` is called when the sink has accepted alerts; `firing` returns what fires now."""
        self.sink = sink
        self.waiting: deque[Alert] = deque()
        self.sent = self.dropped = self.refused = 0
        self.problem = ""  # why nothing is sent at the moment
        self._changed, self._firing = changed, firing
        self._more = trio.Event()

    def add(self, alerts: Sequence[Alert]) -> None:
        self.waiting.extend(alerts)
        while len(self.waiting) > MOST_WAITING:
            self.waiting.popleft()
            self.dropped += 1
        self._more.set()

    async def run(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            if not self.waiting:
                await self._wait()
                continue
            some = [self.waiting[at] for at in range(min(_BATCH, len(self.waiting)))]
            try:
                await self.sink.send(some)
            except NotSent as error:
                self.problem = str(error)
                if error.again:
                    await trio.sleep(pause)
                    pause = min(pause * 2, _LONGEST_PAUSE)
                    continue
                self.refused += len(some)
            else:
                self.problem, pause = "", _FIRST_PAUSE
                self.sent += len(some)
            for one in some:
                if self.waiting and self.waiting[0] is one:  # it may have been dropped meanwhile
                    self.waiting.popleft()
            self._changed()

    async def _wait(self) -> None:
        """Wait for alerts; meanwhile report what fires, if the sink wants that."""
        self._more = trio.Event()
        while not self.waiting:
            with trio.move_on_after(_REPEATED if self.sink.repeats else float("inf")):
                await self._more.wait()
                return
            firing = self._firing()
            try:
                for first in range(0, len(firing), _BATCH):
                    await self.sink.send(firing[first : first + _BATCH])
            except NotSent as error:
                self.problem = str(error)

    def statistics(self) -> Document:
        return {
            "sink": self.sink.name,
            "waiting": len(self.waiting),
            "sent": self.sent,
            "dropped": self.dropped,
            "refused": self.refused,
            "problem": self.problem,
        }


def make_sinks(
    options: Sequence[SinkOptions], base: str, session: Session | None, stream: TextIO | None = None
) -> list[Sink]:
    """`session`: of the recorded cluster, for Events. Raises BadSink for a CA file that cannot be used."""
    found: list[Sink] = []
    for one in options:
        if one.kind == "stdout":
            found.append(Stdout(one.form, base, stream))
        elif one.kind == "webhook":
            found.append(Webhook(one, base))
        elif one.kind == "alertmanager":
            found.append(Alertmanager(one, base))
        elif session is not None:
            found.append(Events(session, one))
    kinds = Counter[str]()
    for sink in found:
        kinds[sink.name] += 1
        if kinds[sink.name] > 1:
            sink.name = f"{sink.name}-{kinds[sink.name]}"  # each has alerts of its own that wait
    return found


GRACE: Final = 10 * MICROS  # events may be committed so much later than the time that they have
