"""The search: when an object broke, the changes around it before that, in the order of how much they explain.

    find_suspects(Past(journal, head, Everything()), Name("pods", "shop", "web-x"), since, refused)

It is long work in pieces, which the server does in threads in turn with other users, and a command at once. It returns
the document that the API sends and the command prints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from rewound.actors.rewind.long_work import LongWork, Piece
from rewound.actors.rewind.moments import rfc3339
from rewound.actors.rewind.summary import summary_of, summary_of_created
from rewound.rewind.suspects.breaking import SECOND, Breakage, Symptom, accounts_of, children, find_breakage
from rewound.rewind.suspects.concerns import Concern, Rule, Surroundings, first_concern, rules_for
from rewound.rewind.suspects.past import Change, Document, Name, Past, short
from rewound.rewind.suspects.references import owners, references, template_of
from rewound.rewind.suspects.weighing import (
    Candidate,
    action_of,
    fields_of,
    follows,
    fought_field,
    labels_of,
    rarity_of,
    weigh,
    words_of,
)

DAY: Final = 86_400 * SECOND
DEFAULT_SINCE: Final = DAY  # before the failure
MAX_OBJECTS: Final = 400  # of the graph, and that concern the object
MAX_CHANGES: Final = 60  # of one object, the newest
MAX_DISTANCE: Final = 3.0
SHOWN: Final = 20
_LOOKED_AT: Final = 5  # changes of an object that may concern the broken one, the newest
_SYMPTOMS: Final = 10  # that a document has


def find_suspects(
    past: Past, target: Name, since: int | None, refused: Sequence[Document]
) -> LongWork[Document | None]:
    """Return the document about the suspects; None if the journal does not know the object.

    `since`: a version, changes up to it are not looked at; None: a day before the failure. `refused`: the refused
    requests of the journal, oldest first.
    """
    start = since or 0
    breakage: Breakage | None = yield _piece(partial(find_breakage, past, target, start, refused))
    if breakage is None:
        return None
    if since is None:
        start = yield _piece(partial(past.offset_at, breakage.time - DEFAULT_SINCE))
    start = max(start, past.floor)
    named: dict[Name, Concern] = yield from _graph(past, target, breakage)
    around: Surroundings = yield _piece(partial(_surroundings, past, target, breakage, named))
    reached = dict(named)
    for type_, namespace, rules in rules_for(around):
        if namespace == "":
            continue  # the object is cluster-scoped
        changed = yield _piece(partial(past.changed, type_, namespace, start, breakage.effect))
        for at in range(0, len(changed), 20):
            some = changed[at : at + 20]
            yield _piece(partial(_add_concerned, around, some, rules, start, reached))
    candidates: list[Candidate] = []
    for one, concern in reached.items():
        found = yield _piece(partial(_candidates, past, one, concern, start, breakage.effect))
        candidates += found
    candidates += yield _piece(partial(_refused, past, breakage, start, refused))
    yield _piece(partial(_weigh, candidates, breakage))
    return _document(past, target, breakage, start, len(reached), candidates)


def _piece(work: Callable[[], object]) -> Piece:
    return Piece(work, waits=True)


# The graph.


def _graph(past: Past, target: Name, breakage: Breakage) -> LongWork[dict[Name, Concern]]:
    """The objects that can be reached by references, owners first, with their distances."""
    found: dict[Name, Concern] = {target: (0.0, "the object itself")}
    left = [target]
    while left and len(found) < MAX_OBJECTS:
        one = left.pop(0)
        near: list[tuple[Name, float, str]] = yield _piece(
            partial(_neighbours, past, one, found[one][0], breakage)
        )
        for name, distance, relation in near:
            known = found.get(name)
            if (
                distance <= MAX_DISTANCE
                and (known is None or distance < known[0])
                and len(found) < MAX_OBJECTS
            ):
                found[name] = distance, relation
                left.append(name)
    if left:
        past.note(f"references beyond the nearest {MAX_OBJECTS} objects")
    return found


def _neighbours(past: Past, one: Name, distance: float, breakage: Breakage) -> list[tuple[Name, float, str]]:
    """Objects next to one, as it was when the failure was seen, and before the failure."""
    found: dict[Name, tuple[float, str]] = {}
    label = f"{_kind(one)} {one.name}"
    in_family = one in breakage.family
    for content in _contents(past, one, breakage):
        if in_family or distance == 0:
            for owner in owners(past, one, content):
                found.setdefault(owner, (distance + 0.3, f"owns {label}"))
        if one.type in ("namespaces", "nodes"):
            continue  # they name nothing that a failure of others can come from
        for reference in references(past, one, content):
            found.setdefault(reference.to, (distance + 1.0, f"{label} {reference.relation} it"))
    if in_family:
        for child in children(past, one):
            found.setdefault(child, (distance + 0.5, f"{label} owns it"))
    return [(name, *how) for name, how in found.items()]


def _contents(past: Past, one: Name, breakage: Breakage) -> Iterator[Document]:
    for version in dict.fromkeys((breakage.effect, breakage.version - 1)):
        if (content := past.last_content(one, version)) is not None:
            yield content


def _kind(one: Name) -> str:
    return one.type.partition(".")[0].removesuffix("s")


def _surroundings(past: Past, target: Name, breakage: Breakage, named: dict[Name, Concern]) -> Surroundings:
    labels = [
        labels_of(template_of(one.type, content))
        for one in breakage.family
        for content in _contents(past, one, breakage)
    ]
    accounts = tuple(accounts_of(past, breakage.family))
    return Surroundings(past, target, breakage, named, accounts, tuple(filter(None, labels)), {})


def _add_concerned(
    around: Surroundings, some: Iterable[Name], rules: list[Rule], start: int, reached: dict[Name, Concern]
) -> None:
    """Add the objects that concern the broken one: as they are, or as they were before their last change."""
    for one in some:
        if len(reached) >= MAX_OBJECTS:
            around.past.note(f"more than {MAX_OBJECTS} objects")
            return
        events = around.past.events(one, start, around.breakage.effect, _LOOKED_AT)
        changes = [around.past.change(one, event) for event in events]
        # Thousands of nodes that only report that they live must not take the place of one that was cordoned.
        if one.type == "nodes" and not any(_is_telling(change) for change in changes):
            continue
        contents = [content for change in changes for content in (change.after, change.before) if content]
        concern = first_concern(around, one, contents, rules)
        if concern is not None and (one not in reached or concern[0] < reached[one][0]):
            reached[one] = concern


def _is_telling(change: Change) -> bool:
    return action_of(change, fields_of(change)) in ("changed", "deleted")


# What changed.


def _candidates(past: Past, one: Name, concern: Concern, start: int, upto: int) -> list[Candidate]:
    """The changes of one object that may explain a failure."""
    changes = [(change, fields_of(change)) for change in past.changes(one, start, upto, MAX_CHANGES)]
    counts = Counter(field.path for _, fields in changes for field in fields)
    found = []
    for change, fields in changes:
        if action := action_of(change, fields):
            candidate = _candidate(past, change, concern, action)
            candidate.fields, candidate.rarity = list(fields), rarity_of(change, counts, fields)
            found.append(candidate)
    if concern[0] <= 1.5 and (fight := fought_field(changes)) is not None:
        path, turns, authors = fight
        newest = next(change for change, fields in changes if any(field.path == path for field in fields))
        candidate = _candidate(past, newest, concern, "fought over")
        candidate.fields = [field for field in fields_of(newest) if field.path == path]
        shown = " and ".join(authors) if candidate.user else "several authors"
        candidate.message = f"{path} was set {turns} times in turn by {shown}"
        found.append(candidate)
    return found


def _candidate(past: Past, change: Change, concern: Concern, action: str) -> Candidate:
    event = change.event
    user, manager = past.user_of(change.of, event)
    return Candidate(
        change.of,
        *concern,
        event.offset,
        event.time,
        user,
        manager,
        event.verb,
        action,
        competes="uses the same" in concern[1],
        follows=follows(change, user, manager),
    )


def _refused(past: Past, breakage: Breakage, start: int, refused: Sequence[Document]) -> list[Candidate]:
    """Requests to change the object, or its owners, that were refused: the change that did not happen."""
    after, upto = past.time_of(start), past.time_of(past.upto)
    found: dict[tuple[str, str], Candidate] = {}
    for one in refused:
        name = Name(short(one["type"]), one["namespace"], one["name"])
        if name not in breakage.family or one.get("conflict") or not after < one["time"] <= upto:
            continue
        if one["verb"] == "create" or not past.shows_refused(name.type, name.namespace):
            continue
        distance = 0.0 if name == breakage.family[0] else 0.5
        version = past.offset_at(one["time"])
        found[one["user"], one["message"]] = Candidate(
            name,
            distance,
            "the object itself" if not distance else f"{_kind(name)} {name.name}",
            version,
            one["time"],
            one["user"],
            str(one.get("manager", "")),
            one["verb"],
            "refused",
            message=str(one["message"]),
        )
    return list(found.values())


def _weigh(candidates: list[Candidate], breakage: Breakage) -> None:
    words = words_of(breakage)
    for one in candidates:
        weigh(one, breakage, words)


# The document.


def _document(
    past: Past, target: Name, breakage: Breakage, start: int, objects: int, candidates: list[Candidate]
) -> Document:
    best: dict[Name, Candidate] = {}
    others: Counter[Name] = Counter()
    for one in sorted(candidates, key=lambda one: (-one.weight, -one.version, one.of)):
        others[one.of] += one.of in best
        best.setdefault(one.of, one)
    ranked = list(best.values())
    broke: Document = {
        "version": str(breakage.version),
        "time": rfc3339(breakage.time),
        "micros": breakage.time,
    }
    if breakage.words:
        broke |= {"phase": breakage.words, "before": breakage.before, "seen": str(breakage.effect)}
    document: Document = {
        "kind": "Suspects",
        "apiVersion": "rewound.cluster.io/v1",
        "object": _identity(past, target),
        "broken": bool(breakage.words),
        "broke": broke,
        "symptoms": [_symptom(past, one) for one in breakage.symptoms[:_SYMPTOMS]],
        "from": {"version": str(start), "time": rfc3339(past.time_of(start)) if start else None},
        "looked": {"objects": objects, "events": past.read, "changes": len(candidates)},
        "items": [_item(past, one, others[one.of]) for one in ranked[:SHOWN]],
        "leftOut": past.left_out,
    }
    if len(ranked) > SHOWN:
        document["more"] = len(ranked) - SHOWN
    return document


def _identity(past: Past, one: Name) -> Document:
    return {"type": past.type_name(one.type), "namespace": one.namespace, "name": one.name}


def _symptom(past: Past, one: Symptom) -> Document:
    return {
        "object": _identity(past, one.of),
        "version": str(one.version),
        "time": rfc3339(one.time),
        "micros": one.time,
        "source": one.source,
        "reason": one.reason,
        "message": one.message,
    }


def _item(past: Past, one: Candidate, others: int) -> Document:
    item: Document = {
        **_identity(past, one.of),
        "weight": round(one.weight, 4),
        "version": str(one.version),
        "time": rfc3339(one.time),
        "micros": one.time,
        "verb": one.verb,
        "action": one.action,
        "relation": one.relation,
        "distance": round(one.distance, 1),
        "reasons": one.reasons,
    }
    if one.user:
        item |= {"user": one.user, "fieldManager": one.manager}
    if one.message:
        item["message"] = one.message
    if one.fields:
        item["summary"] = summary_of(one.fields, secret=one.of.type == "secrets")
    elif one.action == "created" and (content := past.content(one.of, one.version)) is not None:
        item["summary"] = summary_of_created(content)
    if others:
        item["others"] = others
    return item
