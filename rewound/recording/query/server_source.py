"""Reads a server by its API: lists with `?at=`, the history group, and the events of the timeline."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from rewound.actors.golang.json import unescaped
from rewound.actors.names import REWIND_GROUP, Names
from rewound.actors.rewind.difference import Change, escaped
from rewound.client.discovery import Discovery, ResourceType
from rewound.client.errors import ClientError, Failure, StatusError, UsageError
from rewound.client.session import Session
from rewound.client.target import segment
from rewound.journal.records import Event
from rewound.recording.query.entries import Document, Entry, Kind, Selection, compared, near_kind
from rewound.recording.query.moments import (
    Moment,
    after_the_end,
    before_the_start,
    check_order,
    in_the_future,
    rfc3339,
)
from rewound.recording.query.source import (
    Difference,
    Progress,
    Source,
    Stats,
    TypeStats,
    Version,
    Wanted,
    did_not_exist,
)

ROOT = f"/apis/{REWIND_GROUP}/v1"
PAGE = 500  # versions or objects
EVENT_PAGE = 1000
FEW = 20  # objects of a kind that are read one by one
WAIT = 25  # seconds of one request that waits for events
READING = 0.2  # seconds between requests to a server that is still reading older events
PAUSE = 1.0  # seconds between requests to a server that cannot be reached
MINUTE, HOUR = 60, 3600

Query = dict[str, str | list[str]]


class _Ends(NamedTuple):
    """The versions of an object at both ends of a difference; 0 where it does not exist."""

    names: tuple[str, str]
    before: int
    after: int
    last: Event


class ServerSource(Source):
    is_server = True

    def __init__(self, session: Session) -> None:
        self._session, self._discovery = session, Discovery(session)
        self._found: dict[str, ResourceType] = {}  # by type name
        self._numbers: dict[str, int] = {}  # our numbers of types, by name; in events they replace type ids
        self._kinds: list[Kind] = []  # by number
        self._types: dict[str, Kind] | None = None
        self._scope: Query = {}  # parameters of requests for events: a namespace, or none
        self._dialect: Names | None = None
        self._has_journal = False  # known to be a Rewound server
        self.place = f"the journal of {session.target.server}"
        self.namespace = session.target.namespace or "default"

    def names(self) -> Names:
        if self._dialect is None:
            self._dialect = self._discovery.names()
        return self._dialect

    def kubernetes(self) -> str:
        return str(self._session.get("/version")["gitVersion"])

    # Kinds and names.

    def kind(self, text: str) -> Kind:
        found = self._discovery.find(text)
        if found is None:
            names, plurals = self._discovery.known_names()
            raise UsageError(f"{text!r} is not a kind of this server; {near_kind(text, names, plurals)}")
        type_name = f"{found.plural}.{found.group}" if found.group else found.plural
        self._found[type_name] = found
        return Kind(type_name, found.kind, found.prefix.split("/", 2)[2], found.namespaced)

    def kinds(self, namespace: str = "") -> list[Kind]:
        self._look_in(namespace)
        found = self._visible()
        if not found:
            where = f"in namespace {namespace}" if namespace else "in all namespaces; name one with -n"
            raise Failure(f"you may list nothing of {self._session.target.server} {where}")
        return [one for _, one in sorted(found.items())]

    def selection(self, options: Any) -> Selection:
        """Raises Failure also for types that the user may not list: they would look like a journal without events."""
        found = super().selection(options)
        visible = {one.type_name for one in self.kinds(found.one_namespace or "")}
        for kind in found.kinds:
            if kind.type_name not in visible:
                where = f"in namespace {found.namespace}" if found.one_namespace else "in all namespaces"
                raise Failure(f"you may not list {kind.type_name} {where}")
        return found

    def _look_in(self, namespace: str) -> None:
        """Restrict requests to a namespace: the user may have rights only there."""
        if namespace and self._scope.get("namespace") != namespace:
            self._scope, self._types = {"namespace": namespace}, None

    def _place(self, kind: Kind, namespace: str) -> str:
        place = super()._place(kind, namespace)
        self._look_in(place)
        return place

    def _visible(self) -> dict[str, Kind]:
        """The types whose events the user sees, by name."""
        if self._types is None:
            items = self._timeline("/types", self._scope)["items"]
            self._types = {
                one["type"]: Kind(one["type"], one["kind"], one["apiVersion"], one["namespaced"])
                for one in items
            }
            for one in items:
                version = one["apiVersion"]
                prefix = f"/apis/{version}" if "/" in version else f"/api/{version}"
                group = one["type"].partition(".")[2]
                found = ResourceType(group, one["resource"], one["namespaced"], prefix, one["kind"])
                self._found.setdefault(one["type"], found)
        return self._types

    def kind_of(self, type_id: int) -> Kind:
        return self._kinds[type_id]

    def oldest(self) -> int:
        """The version of the oldest event that the user may see; 1 without one."""
        page = self._timeline("/events", {**self._scope, "limit": "1"})
        return int(page["oldest"]["version"]) if "oldest" in page else 1

    def number_of(self, kind: Kind) -> int:
        """The type id of a kind in our events."""
        return self._number(kind.type_name)

    def _number(self, type_name: str) -> int:
        if type_name not in self._numbers:
            if type_name not in self._visible():
                self._types = None  # a new kind may have been added
            kind = self._visible().get(type_name) or Kind(type_name, type_name, "", None)
            self._numbers[type_name] = len(self._kinds)
            self._kinds.append(kind)
        return self._numbers[type_name]

    def has_namespace(self, name: str) -> bool:
        try:
            self._session.get(f"/api/v1/namespaces/{segment(name)}")
        except StatusError as error:
            if error.code != 404:
                return True  # unknown
            if self._has_history(Wanted(self.kind("namespaces"), "", name)):
                return True
            # A recording may have objects without their Namespace.
            return bool(self._timeline("/events", {"namespace": name, "limit": "1"})["items"])
        return True

    def namespaces(self) -> list[str]:
        return [name for _, name in self.objects_named(self.kind("namespaces"), 1000)]

    def objects_named(self, kind: Kind, most: int) -> list[tuple[str, str]]:
        try:
            listed = self._session.get(self._collection(Wanted(kind, None)), limit=str(most))
        except ClientError:
            return []  # the user may not list them
        found = [one["metadata"] for one in listed["items"]]
        return [(one.get("namespace", ""), one["name"]) for one in found]

    # One object.

    def history(
        self, wanted: Wanted, limit: int | None, *, managed_fields: bool = False
    ) -> Iterator[Document]:
        left, token = limit, ""
        while left is None or left > 0:
            query = {
                "limit": str(PAGE if left is None else min(left, PAGE)),
                "managedFields": str(managed_fields).lower(),
                "changes": "true",
            }
            if token:
                query["continue"] = token
            page = self._get(wanted, "history", query)
            yield from page["items"]
            token = page["metadata"].get("continue", "")
            if not token:
                return
            left = None if left is None else left - len(page["items"])

    def contents(
        self, wanted: Wanted, ends: tuple[Moment, Moment]
    ) -> tuple[Document | None, Document | None]:
        """Read both contents. The difference has their versions, and the name of an object given by its uid."""
        first, second = (end.text for end in ends)
        first = first or str(self.version(ends[0]).offset)
        try:
            found = self._get(wanted, "history", {"diff": f"{first}..{second}", "managedFields": "false"})
        except StatusError as error:
            raise self._checked(error, *ends) from None
        except Failure:
            if not self._has_history(wanted):
                raise
            for end in ends:
                self.version(end)  # raises an error if the journal does not have the moment
            return None, None
        named = replace(wanted, name=found["object"]["name"], uid="")
        contents: list[Document | None] = []
        for end, given in zip((found["from"], found["to"]), ends, strict=True):
            if "objectVersion" in end:
                contents.append(next(self.objects(named, Moment(int(end["version"])))))
            else:
                self._check_start(given)
                contents.append(None)
        return contents[0], contents[1]

    def blame(self, wanted: Wanted, at: Moment) -> Document:
        try:
            return self._get(wanted, "blame", {"at": at.text} if at.text else {})
        except StatusError as error:
            raise self._checked(error, at) from None
        except Failure:
            self._check_start(at)
            if self._has_history(wanted):
                raise did_not_exist(wanted) from None
            raise

    def suspects(self, wanted: Wanted, at: Moment, since: Moment | None) -> Document:
        query: Query = {"type": wanted.kind.type_name, "name": wanted.name}
        query |= {"namespace": wanted.namespace} if wanted.namespace else {}
        query |= {"at": at.text} if at.text else {}
        query |= {"since": since.text or str(self.version(since).offset)} if since is not None else {}
        try:
            return self._session.request("GET", f"{ROOT}/timeline/suspects", query=query)
        except StatusError as error:
            if error.code == 404:
                raise self.never_existed(wanted) from error
            raise self._checked(error, at, *(() if since is None else (since,))) from error

    def rollback(self, wanted: Wanted, to: Moment, fields: list[str], *, dry_run: bool) -> Document:
        body: dict[str, Any] = {"to": to.text or str(self.version(to).offset)}
        if fields:
            body["fields"] = fields
        try:
            return self._post(wanted, "rollback", body, dry_run=dry_run)
        except StatusError as error:
            if error.code in (400, 404) and not self._has_history(wanted):
                raise self.never_existed(wanted) from error
            raise self._checked(error, to) from error

    def undelete(self, wanted: Wanted, *, dry_run: bool) -> Document:
        try:
            return self._post(wanted, "undelete", {"uid": wanted.uid} if wanted.uid else {}, dry_run=dry_run)
        except StatusError as error:
            if error.code == 404 and not self._has_history(wanted):
                raise self.never_existed(wanted) from error
            raise

    def _has_history(self, wanted: Wanted) -> bool:
        try:
            self._session.get(self._path(wanted, "history"), limit="1")
        except StatusError as error:
            return error.code != 404
        return True

    def _get(self, wanted: Wanted, below: str, query: dict[str, str]) -> Document:
        """Send a GET. Raises Failure for an object that the server does not know."""
        if wanted.uid:
            query = {**query, "uid": wanted.uid}
        try:
            return self._session.get(self._path(wanted, below), **query)
        except StatusError as error:
            if error.code == 404:
                raise self.never_existed(wanted) from error
            raise

    def _checked(self, error: StatusError, *moments: Moment) -> StatusError:
        """The error of a request, as a Failure if a moment in it is the reason."""
        if error.code in (400, 410):
            for moment in moments:
                self.version(moment)
        return error

    def _post(self, wanted: Wanted, below: str, body: Document, *, dry_run: bool) -> Document:
        query: Query = {"dryRun": "All"} if dry_run else {}
        return self._session.request("POST", self._path(wanted, below), body, query)

    def _path(self, wanted: Wanted, below: str) -> str:
        where = f"/namespaces/{segment(wanted.namespace)}" if wanted.namespace else ""
        return f"{ROOT}{where}/{wanted.kind.type_name}/{segment(wanted.name)}/{below}"

    def _collection(self, wanted: Wanted) -> str:
        found = self._found[wanted.kind.type_name]
        where = f"/namespaces/{segment(wanted.namespace)}" if wanted.namespace else ""
        return f"{found.prefix}{where}/{found.plural}"

    # Objects of a moment.

    def version(self, moment: Moment) -> Version:
        """The version of a moment: that of the newest event up to it that the user may see."""
        query: Query = {"limit": "1"}
        if moment.text:
            query["to"] = moment.text
        page = self._timeline("/events", query)
        if "newest" not in page and self._scope:
            query |= self._scope
            page = self._timeline("/events", query)
        newest = int(page["newest"]["version"]) if "newest" in page else 0
        if moment.offset is not None and moment.offset > newest:
            raise Failure(after_the_end(moment, newest))
        self._check_past(moment, page)
        while not page["items"] and (token := page["metadata"].get("continue", "")):
            page = self._timeline(
                "/events", {**query, "continue": token}
            )  # the server is still reading older events
        if not page["items"]:
            return Version(moment.offset or 0, 0)
        (item,) = page["items"]
        offset = int(item["version"]) if moment.offset is None else moment.offset
        return Version(offset if moment.text else newest, item["micros"])

    def _check_past(self, moment: Moment, page: Document) -> None:
        """Raises Failure for a moment before the oldest, or in the future."""
        if "oldest" not in page:
            return
        oldest, first = int(page["oldest"]["version"]), page["oldest"]["time"]
        floor = oldest - 1
        if moment.time is not None and moment.time < first:
            raise Failure(before_the_start(moment, floor, first))
        if moment.offset is not None and moment.offset < floor:
            raise Failure(before_the_start(moment, floor, first))
        if moment.time is not None and moment.time > _latest(page):
            raise Failure(in_the_future(moment))

    def _check_start(self, moment: Moment) -> None:
        """Raises Failure for a time before the first event, for which the API returns an empty state."""
        if moment.time is not None:
            self.version(moment)

    def _check_history(self, at: Moment) -> None:
        """Raises Failure for another API server, which would ignore `at` and return the current state."""
        if at.text and not self._has_journal:
            self._timeline("/types", self._scope)
            self._has_journal = True

    def objects(self, wanted: Wanted, at: Moment) -> Iterator[Document]:
        self._check_history(at)
        path, query = self._collection(wanted), _query(wanted, at)
        if wanted.name:
            yield self._one("application/json", wanted, at)
            return
        for page in self._pages("application/json", path, query, at):
            kind = {"apiVersion": page["apiVersion"], "kind": page["kind"].removesuffix("List")}
            yield from ({**kind, **one} for one in page["items"])

    def table(self, wanted: Wanted, at: Moment) -> Iterator[Document]:
        self._check_history(at)
        accept = f"application/json;as=Table;v=v1;g={self.names().group('meta')}"
        if wanted.name:
            yield self._one(accept, wanted, at)
            return
        yield from self._pages(accept, self._collection(wanted), _query(wanted, at), at)

    def _one(self, accept: str, wanted: Wanted, at: Moment) -> Document:
        path = f"{self._collection(wanted)}/{segment(wanted.name)}"
        try:
            return self._session.get_as(accept, path, _query(wanted, at))
        except StatusError as error:
            if error.code != 404:
                raise self._checked(error, at) from None
            self._check_start(at)
            raise (
                did_not_exist(wanted) if self._has_history(wanted) else self.never_existed(wanted)
            ) from error

    def _pages(self, accept: str, path: str, query: Query, at: Moment) -> Iterator[Document]:
        query = {**query, "limit": str(PAGE)}
        while True:
            try:
                page = self._session.get_as(accept, path, query)
            except StatusError as error:
                raise self._checked(error, at) from None
            yield page
            token = page["metadata"].get("continue", "")
            if not token:
                return
            query["continue"] = token

    # Events.

    def refused(self) -> Iterator[Document]:
        """None if the server is not a replay of a recording, or the recording does not have them."""
        query: Query = {**self._scope, "limit": "1000"}
        try:
            found = self._session.request("GET", f"{ROOT}/timeline/refused", query=query)
        except StatusError as error:
            if error.code == 404:
                return iter(())
            raise
        return iter([{**one, "time": one["micros"]} for one in reversed(found["items"])])

    def gaps(self) -> list[Document]:
        query: Query = {**self._scope, "limit": "1000"}
        try:
            found: list[Document] = self._session.request("GET", f"{ROOT}/timeline/gaps", query=query)[
                "items"
            ]
        except StatusError as error:
            if error.code == 404:
                return []
            raise
        return found

    def _timeline(self, what: str, query: Query) -> Document:
        why = "it has no timeline"
        try:
            found = self._session.request("GET", f"{ROOT}/timeline{what}", query=query)
            if str(found.get("kind", "")).startswith("Timeline"):
                return found
        except StatusError as error:
            if error.code != 404:
                raise
            why = str(error)
        raise Failure(
            f"{self._session.target.server} has no journal to read ({why}); is it a Rewound server? A folder is read "
            "with --data-dir, a file with --file"
        )

    def log(
        self,
        selection: Selection,
        since: Moment | None,
        until: Moment | None,
        limit: int | None,
        *,
        reverse: bool,
    ) -> Iterator[Sequence[Entry]]:
        query = _event_query(selection)
        check_order(since, until)
        if since is not None:
            if since.offset is not None or since.time is not None:
                self._check_not_future(since)
            query["from"] = since.text or str(self.version(since).offset)
        if until is not None and until.text:
            query["to"] = until.text
            self._check_start(until)
        if limit is None:
            pages = self._event_pages(selection, query, descending=reverse)
            return (entries for entries, _ in pages)
        return iter([self._newest(selection, query, limit, reverse=reverse)])

    def _check_not_future(self, moment: Moment) -> None:
        page = self._timeline("/events", {**self._scope, "limit": "1"})
        newest = int(page["newest"]["version"]) if "newest" in page else 0
        if moment.offset is not None and moment.offset > newest:
            raise Failure(after_the_end(moment, newest))
        if moment.time is not None and moment.time > _latest(page):
            raise Failure(in_the_future(moment))

    def _newest(self, selection: Selection, query: Query, limit: int, *, reverse: bool) -> list[Entry]:
        found: list[Entry] = []
        for entries, _ in self._event_pages(selection, query, descending=True, most=limit):
            found += entries
            if len(found) >= limit:
                break
        found = found[:limit]
        return found if reverse else found[::-1]

    def _event_pages(
        self, selection: Selection, query: Query, *, descending: bool, most: int = EVENT_PAGE
    ) -> Iterator[tuple[list[Entry], int]]:
        """Pages of selected events, each with the version up to which events have been read."""
        query = {
            **query,
            "order": "descending" if descending else "ascending",
            "limit": str(min(most, EVENT_PAGE)),
        }
        while True:
            page = self._timeline("/events", query)
            entries = [self._entry(item, selection) for item in page["items"]]
            yield [entry for entry in entries if _matches(selection, entry.event)], int(page["upto"])
            token = page["metadata"].get("continue", "")
            if not token:
                return
            query["continue"] = token

    def follow(self, selection: Selection, after: int) -> Iterator[Sequence[Entry]]:
        quick = _event_query(replace(selection, contents=False))
        while True:
            page = self._next_events(
                {**quick, "from": str(after + 1), "order": "ascending", "wait": str(WAIT)}
            )
            if page["items"]:
                upto = max(int(item["version"]) for item in page["items"])
                entries = [self._entry(item, selection) for item in page["items"]]
                if selection.contents:
                    again = {**_event_query(selection), "from": str(after + 1), "to": str(upto)}
                    pages = self._event_pages(selection, again, descending=False)
                    entries = [entry for some, _ in pages for entry in some]
                yield [entry for entry in entries if _matches(selection, entry.event)]
                after = upto
            else:
                after = max(after, int(page["upto"]))
                yield []

    def _next_events(self, query: Query) -> Document:
        """Wait for the next events, also while the server cannot be reached: it may be restarting."""
        said = False
        while True:
            try:
                return self._timeline("/events", query)
            except StatusError:
                raise
            except ClientError as error:
                if not said:
                    print(f"rewound: {escaped(str(error))}; waiting for it", file=sys.stderr)
                said = True
                time.sleep(PAUSE)

    def event(self, offset: int, namespace: str, *, show_secrets: bool) -> Entry:
        self.kinds(namespace)  # Failure
        query: Query = {
            **self._scope,
            "from": str(offset),
            "to": str(offset),
            "limit": "1",
            "order": "ascending",
        }
        page = self._timeline("/events", {**query, "contents": "true", "before": "true"})
        for item in page["items"]:
            return self._entry(item, Selection(show_secrets=show_secrets))
        newest = int(page["newest"]["version"]) if "newest" in page else 0
        oldest = int(page["oldest"]["version"]) if "oldest" in page else 0
        if offset > newest:
            raise Failure(f"there is no event {offset} yet: the newest is {newest}")
        if offset < oldest:
            raise Failure(
                f"event {offset} is no longer in the journal, which has all events after {oldest - 1}"
            )
        where = f" in namespace {namespace}" if namespace else ""
        raise Failure(
            f"there is no event {offset}{where} that you may see, or nothing was committed under that version"
        )

    def _entry(self, item: Document, selection: Selection) -> Entry:
        type_id = self._number(item["type"])
        removed = item["change"] == "deleted"
        event = Event(
            int(item["version"]),
            type_id,
            item["verb"],
            item["namespace"],
            item["name"],
            int(item["previous"]),
            removed,
            item["micros"],
            item.get("user", ""),
            item.get("fieldManager", ""),
            b"",
            unescaped(item["object"]) if "object" in item else b"",
            item.get("reason", ""),
        )
        masked = self.kind_of(type_id).is_secret and not selection.show_secrets
        if "object" in item:
            before = unescaped(item["before"]) if "before" in item else None
            return Entry(event, before, masked)
        return Entry(event, None, masked, item.get("summary") or {})

    def differences(
        self, selection: Selection, ends: tuple[int, int], progress: Progress
    ) -> Iterator[Difference]:
        """Find the last event of each object in between, then read those that existed at both ends."""
        low, high = sorted(ends)
        query = {**_event_query(replace(selection, contents=False)), "from": str(low + 1), "to": str(high)}
        query.pop("summary", None)
        first: dict[tuple[int, str, str], Event] = {}
        last: dict[tuple[int, str, str], Event] = {}
        for entries, _ in self._event_pages(selection, query, descending=False):
            for entry in entries:
                event = entry.event
                key = (event.type_id, event.namespace, event.name)
                first.setdefault(key, event)
                last[key] = event
        by_kind: dict[int, list[tuple[str, str]]] = {}
        for type_id, namespace, name in sorted(last):
            by_kind.setdefault(type_id, []).append((namespace, name))
        for done, type_id in enumerate(sorted(by_kind, key=lambda one: self.kind_of(one).type_name)):
            progress(done)
            kind = self.kind_of(type_id)
            found: list[_Ends] = []
            for names in by_kind[type_id]:
                key = (type_id, *names)
                before, after = first[key].previous, 0 if last[key].removed else last[key].offset
                if before != after:
                    turned = (after, before) if ends[0] > ends[1] else (before, after)
                    found.append(_Ends(names, *turned, last[key]))
            mask = kind.is_secret and not selection.show_secrets
            contents = self._contents(kind, selection.one_namespace, found, ends)
            for one in found:
                changes: list[Change] = []
                if one.before and one.after:
                    bodies = (unescaped(content) for content in next(contents))
                    changes = compared(*bodies, managed_fields=selection.managed_fields, mask=mask)
                yield Difference(kind, *one.names, one.before, one.after, one.last, changes)

    def _contents(
        self, kind: Kind, namespace: str | None, found: list[_Ends], ends: tuple[int, int]
    ) -> Iterator[tuple[Document, Document]]:
        """The contents of objects that exist at both ends, in order; many are read by lists, in the same order."""
        both = [one for one in found if one.before and one.after]
        if len(both) <= FEW:
            for one in both:
                wanted = Wanted(kind, *one.names)
                before, after = (self.objects(wanted, Moment(end)) for end in (one.before, one.after))
                yield next(before), next(after)
            return
        before, after = (self.objects(Wanted(kind, namespace), Moment(end)) for end in ends)
        for one in both:
            yield _named(before, one.names), _named(after, one.names)

    # Sizes.

    def stats(self, progress: Callable[[int, int], object]) -> Stats:
        kinds = self.kinds()
        ends = self._timeline("/events", {"limit": "1"})
        if "newest" not in ends:
            return Stats(self._session.target.server, self.names().dialect, 0, 0, 0, 0, _no_rates(), [])
        oldest, newest = ends["oldest"], ends["newest"]
        counts = self._counts(oldest["time"], max(ends["now"], newest["time"]) + 1)
        types = []
        for number, kind in enumerate(kinds):
            progress(number, len(kinds))
            if kind.type_name in counts:
                types.append(
                    TypeStats(kind.kind, kind.type_name, counts[kind.type_name], None, self._live(kind))
                )
        events, passed = sum(counts.values()), (newest["time"] - oldest["time"]) / 1_000_000
        rates = {
            name: sum(self._counts(ends["now"] - seconds * 1_000_000, ends["now"] + 1).values()) / seconds
            for name, seconds in (("minute", MINUTE), ("hour", HOUR))
        }
        return Stats(
            self._session.target.server,
            self.names().dialect,
            int(newest["version"]),
            int(oldest["version"]) - 1,
            oldest["time"],
            newest["time"],
            {**rates, "sinceFloor": events / passed if passed else 0.0},
            types,
        )

    def _counts(self, start: int, end: int) -> dict[str, int]:
        """Events of each type in a range of time."""
        query: Query = {"from": rfc3339(start), "to": rfc3339(end), "buckets": "1", "by": "type"}
        while "reading" in (page := self._timeline("", query)):
            time.sleep(READING)
        return {row["type"]: row["total"] for row in page["rows"]}

    def _live(self, kind: Kind) -> int:
        listed = self._session.get(self._collection(Wanted(kind, None)), limit="1")
        return len(listed["items"]) + int(listed["metadata"].get("remainingItemCount", 0))


def _named(objects: Iterator[Document], names: tuple[str, str]) -> Document:
    """Advance to the object of this name in a list that is sorted in the same order."""
    for one in objects:
        metadata = one["metadata"]
        if (metadata.get("namespace", ""), metadata["name"]) == names:
            return one
    raise Failure(f"{'/'.join(filter(None, names))} cannot be read any more; try again")


def _no_rates() -> dict[str, float]:
    return {"minute": 0.0, "hour": 0.0, "sinceFloor": 0.0}


def _query(wanted: Wanted, at: Moment) -> Query:
    query: Query = {"at": at.text} if at.text else {}
    return {**query, "labelSelector": wanted.labels} if wanted.labels else query


def _event_query(selection: Selection) -> Query:
    """The parameters for conditions that the server can select by; `_matches` checks the rest."""
    query: Query = {"contents": "true", "before": "true"} if selection.contents else {"summary": "true"}
    if selection.kinds:
        query["type"] = [kind.type_name for kind in selection.kinds]
    if selection.one_namespace:
        query["namespace"] = selection.one_namespace
    for name in ("name", "user", "verb"):
        text = getattr(selection, name)
        # The only wildcard of the server is a star at the end.
        if text and not set("*?[") & set(text.removesuffix("*")) and not text.startswith("!"):
            query[name] = text
    return query


def _matches(selection: Selection, event: Event) -> bool:
    return selection.matches_names(event.namespace, event.name) and all(
        wanted is None or fnmatchcase(found, wanted)
        for wanted, found in ((selection.user, event.user), (selection.verb, event.verb))
    )


def _latest(page: Document) -> int:
    """The end of the past: now, or the newest event if a clock is fast."""
    newest: int = page["newest"]["time"] if "newest" in page else 0
    return max(newest, int(page["now"]))
