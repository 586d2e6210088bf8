"""Calls one webhook for one write: builds the review, asks, and reads the verdict."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from time import perf_counter

import trio

from rewound.actors.access.remote.calls import WebhookError
from rewound.actors.admission.request import AdmissionRequest
from rewound.actors.admission.timings import CALLING, HIGHEST_CODE, INTERNAL, NO_ERROR, WebhookTimings
from rewound.actors.admission.webhooks.candidates import Match
from rewound.actors.admission.webhooks.clients import WebhookClients
from rewound.actors.admission.webhooks.documents import in_version, new_document, old_document
from rewound.actors.admission.webhooks.hook import Hook
from rewound.actors.admission.webhooks.review import BadResponse, Reviews, Undecodable, Verdict, denial
from rewound.actors.conversion.converter import Converter
from rewound.actors.errors import BadRequest, ConversionFailed, RequestError, WebhookFailed
from rewound.actors.kinds.validation import qualified_name
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.runtime.large_work import LARGE_BYTES
from rewound.actors.runtime.threads import run_in_thread
from rewound.actors.runtime.trace_context import span
from rewound.actors.runtime.write_context import new_uid
from rewound.actors.store.proposal import Proposal

logger = logging.getLogger(__name__)

# Codes in metrics, of calls that have no response or one of another kind, and of responses that break the rules.
OK, BAD_REQUEST, UNAVAILABLE = 200, 400, 503
# How long a review waits for the commit that gives the object its version; a commit takes some milliseconds.
VERSION_TRIES, VERSION_PAUSE = 1000, 0.005


class CallFailed(Exception):
    """The webhook could not be asked, or has no verdict; failurePolicy decides what follows."""

    def __init__(self, hook: Hook, why: str, code: int = UNAVAILABLE) -> None:
        super().__init__(f'failed calling webhook "{hook.name}": {why}')
        self.code = code


class _Built:
    """Makes the body of a call when it is called; a class, because many calls may wait and closures are larger."""

    __slots__ = ("_in_thread", "body", "build", "document")

    def __init__(self, build: Callable[[], tuple[bytes, Object | None]], in_thread: bool) -> None:
        self.build = build
        self._in_thread = in_thread
        self.body = b""
        self.document: Object | None = None  # the object in the body

    def __call__(self) -> bytes | Awaitable[bytes]:
        if not self.body:
            if self._in_thread:
                return self._build_in_thread()
            self.body, self.document = self.build()
        return self.body

    async def _build_in_thread(self) -> bytes:
        self.body, self.document = await run_in_thread(self.build)
        return self.body


class WebhookCaller:
    def __init__(
        self,
        names: Names,
        clients: WebhookClients,
        timings: WebhookTimings,
        type_: str,
        converter: Converter,
    ) -> None:
        self._converter = converter
        self._reviews = Reviews(names)
        self._clients = clients
        self._timings = timings
        self._type = type_  # in metrics: admit or validating
        self._mutating = type_ == "admit"
        kind = "mutation" if self._mutating else "validating"
        self._failed_key = f"{names.group(f'failed-open.{kind}.webhook.admission')}/round_%d_index_%d"

    async def ask(
        self, match: Match, request: AdmissionRequest, index: int
    ) -> tuple[Verdict | None, Object | None]:
        """The verdict, and the object that the webhook got; no verdict if it failed and may be ignored.

        `index` is the webhook's in audit annotations: among all webhooks of mutating ones, among those that the write
        must ask of validating ones.
        Raises WebhookDenied, or WebhookFailed if the webhook failed and may not be ignored. The caller records that
        a call `passed`, when it has applied the patch.
        """
        hook = match.hook
        began = perf_counter()
        try:
            if request.dry_run and not hook.safe_in_dry_run:
                raise BadRequest(f'admission webhook "{hook.name}" does not support dry run')
            verdict, document = await self._ask(match, request)
        except CallFailed as failed:
            if not hook.fails_closed:
                logger.warning("a webhook failed and is ignored: %s", failed)
                self._annotate_failure(hook, request, index)
                self._timings.ignored(self._type, hook.name)
                self._record(hook, request, failed.code, began, rejected=False)
                return None, None
            logger.warning("a webhook failed, and its write is refused: %s", failed)
            self.refused(hook, request, CALLING, failed.code, began)
            raise WebhookFailed(str(failed)) from None
        except RequestError:
            self.refused(hook, request, INTERNAL, 0, began)
            raise
        if verdict.annotations:
            self._annotate(hook, request, verdict)
        if not verdict.allowed:
            refused = denial(hook, verdict.status)
            refused.warnings = verdict.warnings
            self.refused(hook, request, NO_ERROR, refused.code, began)
            raise refused
        return verdict, document

    def passed(self, hook: Hook, request: AdmissionRequest, began: float) -> None:
        """Record that a webhook allowed a write; `began` is when its call did."""
        self._record(hook, request, OK, began, rejected=False)

    def refused(
        self, hook: Hook, request: AdmissionRequest, error_type: str, code: int, began: float
    ) -> None:
        """Record that a write is refused because of a webhook."""
        self._timings.refused(self._type, hook.name, request.operation, error_type, code)
        self._record(hook, request, code, began, rejected=True)

    def _record(
        self, hook: Hook, request: AdmissionRequest, code: int, began: float, *, rejected: bool
    ) -> None:
        seconds = perf_counter() - began
        self._timings.called(
            self._type,
            hook.name,
            request.operation,
            min(code, HIGHEST_CODE),
            rejected=rejected,
            seconds=seconds,
        )
        total = request.context.webhook_seconds if request.context is not None else None
        if total is not None:
            # Mutating ones are asked one after the other, validating ones at the same time.
            before = total.get(self._type, 0.0)
            total[self._type] = before + seconds if self._mutating else max(before, seconds)

    async def _ask(self, match: Match, request: AdmissionRequest) -> tuple[Verdict, Object | None]:
        hook, uid = match.hook, new_uid()
        if not hook.review_version:
            raise CallFailed(hook, "could not create admission objects: no known review version", BAD_REQUEST)
        version = await version_of(request.written) if request.written else ""
        shown = request
        if match.definition.converts_by_webhook:
            # Before the call: the time of conversions is not that of the webhook.
            try:
                shown = await in_version(request, match.definition, self._converter.convert_one)
            except ConversionFailed as error:
                raise WebhookFailed(str(error)) from None
        built = _Built(partial(self._build, uid, match, shown, version), request.in_thread)
        try:
            with span(
                f"Call {'mutating' if self._mutating else 'validating'} webhook",
                configuration=hook.configuration,
                webhook=hook.name,
                resource=str(match.definition.resource),
                subresource=request.subresource,
                operation=request.operation,
                UID=uid,
            ):
                raw = await self._clients.ask(hook, built)
            read = partial(self._reviews.verdict, uid, hook, raw, mutating=self._mutating)
            verdict = await run_in_thread(read) if len(raw) > LARGE_BYTES else read()
        except WebhookError as error:
            raise CallFailed(hook, f"failed to call webhook: {error}", error.code or BAD_REQUEST) from None
        except Undecodable as error:
            raise CallFailed(hook, f"failed to call webhook: {error}", BAD_REQUEST) from None
        except BadResponse as error:
            raise CallFailed(hook, f"received invalid webhook response: {error}") from None
        return verdict, built.document

    def _build(
        self, uid: str, match: Match, request: AdmissionRequest, version: str
    ) -> tuple[bytes, Object | None]:
        """The body of the call, and the object in it."""
        # Before it is prepared, an object has the version that the client sent, if any.
        new = new_document(request, match.definition, "" if self._mutating else version)
        old = old_document(request, match.definition, version)
        return self._reviews.request(uid, match.hook, match.definition, request, new, old), new

    def _annotate_failure(self, hook: Hook, request: AdmissionRequest, index: int) -> None:
        annotations = request.context.annotations if request.context is not None else None
        if annotations is not None:
            round_ = request.reinvocation.round if request.reinvocation is not None else 0
            key = self._failed_key % (round_ if self._mutating else 0, index)
            annotations.setdefault(key, hook.name)

    def _annotate(self, hook: Hook, request: AdmissionRequest, verdict: Verdict) -> None:
        annotations = request.context.annotations if request.context is not None else None
        if annotations is not None:
            for name, value in verdict.annotations.items():
                key = f"{hook.name}/{name}"
                if "/" in name or qualified_name(key):
                    logger.warning("the audit annotation %.300r of a webhook has no valid key", key)
                else:
                    annotations.setdefault(key, value)


async def version_of(written: int | Proposal) -> str:
    """The resourceVersion of the current object, "" if there is none."""
    if isinstance(written, int):
        return str(written) if written else ""
    for _ in range(VERSION_TRIES):
        if written.event is not None:
            return str(written.event.offset)
        await trio.sleep(VERSION_PAUSE)
    return ""
