"""The page's modules that work without a page: times and pixels, the address, differences of objects."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.browser.chromium import Page
from tests.browser.journal_page import address, journal_page

NOON = 1_700_049_600_000_000
ESCAPED = r"a\u202eb\u200bc\ufeff\u2028d"


async def call(page: Page, module: str, expression: str, **values: Any) -> Any:
    """The value of an expression in which `m` is the module."""
    given = "".join(f"const {name} = {json.dumps(value)};" for name, value in values.items())
    return await page.run(
        f"import('/debug/journal/{module}').then((m) => {{ {given} return {expression}; }})"
    )


async def test_modules(chromium: str) -> None:
    """One page for all of them."""
    async with journal_page(chromium) as (api, page):
        await page.go(address(api))
        await page.wait("document.getElementById('sign-in') && !document.getElementById('sign-in').hidden")
        await times(page)
        await views(page)
        await counts(page)
        await addresses(page)
        await differences(page)
        await yaml_texts(page)
        await fields(page)
        await sentences(page)
        await authors(page)
        await lists(page)
        await comparisons(page)
        await moving_cursor(page)
        await old_versions(page)
        await exports(page)
        await folded_kinds(page)
        await pictures(page)


async def times(page: Page) -> None:
    for time in (NOON, NOON + 1, NOON + 999_999, 0):
        text = await call(page, "scale.js", "m.rfc3339(time)", time=time)
        assert await call(page, "scale.js", "m.parseTime(text)", text=text) == time
    assert await call(page, "scale.js", f"m.rfc3339({NOON} + 42)") == "2023-11-15T12:00:00.000042Z"
    assert await call(page, "scale.js", "m.parseTime('2023-11-15T12:00:00Z')") == NOON
    for wrong in ("", "yesterday", "2023-11-15", "2023-99-15T12:00:00Z", "2023-11-15T12:00:00+01:00"):
        assert await call(page, "scale.js", "m.parseTime(wrong)", wrong=wrong) is None
    for span, text in ((500, "500 µs"), (1500, "1.5 ms"), (90_000_000, "1.5 min"), (86_400_000_000, "1 d")):
        assert await call(page, "scale.js", "m.duration(span)", span=span) == text


async def views(page: Page) -> None:
    view = {"from": NOON, "to": NOON + 1_000_000}
    zoomed = await call(page, "scale.js", f"m.zoom(view, 0.5, {NOON} + 250000)", view=view)
    assert zoomed == {"from": NOON + 125_000, "to": NOON + 625_000}
    # Zooming in and out is limited.
    repeated = (
        "Array.from({length: 99}).reduce((one) => m.spanOf(one) && m.zoom(one, factor, one.from), view)"
    )
    closest = await call(page, "scale.js", repeated, view=view, factor=0.5)
    assert closest["to"] - closest["from"] == 100
    widest = await call(page, "scale.js", repeated, view=view, factor=2)
    assert widest["to"] - widest["from"] == 400 * 86_400_000_000
    assert await call(page, "scale.js", f"m.including(view, {NOON} + 2000000)", view=view) == {
        "from": NOON + 1_100_000,
        "to": NOON + 2_100_000,
    }
    for span, labels in (
        (86_400_000_000, ["12:00", "18:00", "2023-11-16", "06:00", "12:00"]),
        (4000, ["00:00.000", "00:00.001", "00:00.002", "00:00.003", "00:00.004"]),
        (4, ["00:00.000000", "00:00.000001", "00:00.000002", "00:00.000003", "00:00.000004"]),
    ):
        view = {"from": NOON, "to": NOON + span}
        assert await call(page, "scale.js", "m.ticks(view, 500).map((one) => one.label)", view=view) == labels


async def counts(page: Page) -> None:
    data = {"start": NOON, "width": 100}
    row = {"cells": [0, 1, 0, 0, 3, 0, 2, 0, 4, 0, 0, 5, 90, 7, 0, 0]}
    columns = "m.columns(row, data, view, width)"
    # Two pixels a bucket: only what the view shows.
    view = {"from": NOON + 200, "to": NOON + 700}
    assert await call(page, "scale.js", columns, row=row, data=data, view=view, width=10) == [
        [2, 2, 0, 2, 0],
        [4, 2, 0, 0, 5],
    ]
    # Many buckets a pixel: their counts are added.
    view = {"from": NOON, "to": NOON + 10_000}
    assert await call(page, "scale.js", columns, row=row, data=data, view=view, width=10) == [
        [0, 1, 1, 2, 5],
        [9, 1, 7, 0, 0],
    ]
    # An hour without a change between two bursts is folded, and every place is a time again.
    made = """(() => {
        const rows = [{ cells: [0, 1, 0, 0, 99, 0, 1, 0] }, { cells: [900, 0, 1, 0] }];
        const gaps = m.gapsOf({ start: 0, width: 1, buckets: 1000, rows });
        const scale = new m.Scale({ from: 0, to: 1000 }, 946, gaps);
        const places = [0, 50, 100, 500, 900, 999].map((time) => scale.x(time));
        return [gaps, scale.folds.map(({ from, to }) => [from, to]),
            places.every((one, at) => !at || one > places[at - 1]), scale.x(885) - scale.x(115),
            [...Array(946).keys()].every((x) => Math.abs(scale.x(scale.time(x)) - x) < 4)];
    })()"""
    gaps, folds, ascending, folded, inverse = await call(page, "scale.js", made)
    assert gaps == [{"from": 1, "to": 99}, {"from": 100, "to": 900}, {"from": 901, "to": 1000}]
    assert folds == [[115, 885]] and ascending and inverse and abs(folded - 46) < 0.01
    assert (
        await call(page, "scale.js", "new m.Scale({from: 0, to: 10}, 100, [{from: 0, to: 10}]).folds") == []
    )


async def addresses(page: Page) -> None:
    state = {
        "view": {"from": NOON, "to": NOON + 5},
        "cursor": {"time": None, "version": "1042"},
        "by": "namespace",
        "live": True,
        "object": {"type": "deployments.apps", "namespace": "default", "name": "web"},
        "left": "1",
        "right": "2",
        "type": "pods,services",
        "namespace": "a&b=c",
        "name": "web-*",
        "verb": "patch",
        "user": "<b>&#x",
        "q": 'replicas "web 2"',
        "second": NOON + 9,
        "tab": "comparison",
        "noise": False,
    }
    assert await call(page, "filters.js", "m.parse(m.format(state), 0)", state=state) == state
    first = await call(page, "filters.js", f"m.parse('', {NOON})")
    assert first["noise"] is False  # until somebody chooses otherwise
    assert (await call(page, "filters.js", "m.parse('#noise=1', 0)"))["noise"] is True
    assert (await call(page, "filters.js", "m.parse('#noise=0', 0, true)"))["noise"] is False
    assert (await call(page, "filters.js", "m.parse('', 0, true)"))["noise"] is True
    assert first["view"] == {"from": NOON - 3_600_000_000, "to": NOON}
    wrong = "#from=x&to=2023-11-15T12:00:00Z&by=name&at=-5&object=a/b&left=1e9&live=yes&second=now&noise=2"
    assert await call(page, "filters.js", f"m.parse(wrong, {NOON})", wrong=wrong) == first
    asked = await call(page, "filters.js", "m.query(state).toString()", state=state)
    assert asked == (
        "type=pods&type=services&namespace=a%26b%3Dc&name=web-*&user=%3Cb%3E%26%23x"
        "&q=replicas+%22web+2%22&verb=patch&status=false"
    )
    # Noise is left out by kind, as far as the user sees such kinds and has not asked for one.
    leases = {"type": "leases.coordination.cluster.io", "resource": "leases"}
    quiet = "m.query({...m.initial(0), noise: false, namespace: '!a'}, new Map([['', leases]])).toString()"
    assert await call(page, "filters.js", quiet, leases=leases) == (
        "namespace=%21a&type=%21leases.coordination.cluster.io&status=false"
    )
    for url, found in (
        ("http://h/p?token=a", True),
        ("http://h/p?x=1#Access_Token=a", True),
        ("http://h/p?x=token", False),
        ("http://h/p#name=token", False),
    ):
        assert await call(page, "filters.js", "m.hasSecret(url)", url=url) is found


async def differences(page: Page) -> None:
    document = {
        "kind": "ConfigMap",
        "metadata": {"name": "yes", "managedFields": [1], "labels": {}, "generation": 3},
        "items": [{"a": 1, "b": [True, None]}, "plain text", "- quoted", []],
    }
    assert await call(page, "diff.js", "m.lines(value)", value=document) == [
        "kind: ConfigMap",
        "metadata:",
        '  name: "yes"',
        "  labels: {}",
        "  generation: 3",
        "items:",
        "  - a: 1",
        "    b:",
        "      - true",
        "      - null",
        "  - plain text",
        '  - "- quoted"',
        "  - []",
    ]
    sides = "m.sideBySide(left, right).map((one) => [one.kind, one.left, one.right])"
    assert await call(page, "diff.js", sides, left=["a", "b", "c", "d"], right=["a", "x", "y", "d", "e"]) == [
        ["same", "a", "a"],
        ["changed", "b", "x"],
        ["changed", "c", "y"],
        ["same", "d", "d"],
        ["added", None, "e"],
    ]
    assert await call(page, "diff.js", sides, left=["a", "b"], right=["b"]) == [
        ["removed", "a", None],
        ["same", "b", "b"],
    ]
    left = [str(number) for number in range(40)]
    right = [*left[:20], "new", *left[20:]]
    shown = "m.collapsed(m.sideBySide(left, right)).map((one) => one.count ?? one.right)"
    assert await call(page, "diff.js", shown, left=left, right=right) == [
        17,
        *left[17:20],
        "new",
        *left[20:23],
        17,
    ]


async def yaml_texts(page: Page) -> None:
    """What is shown, copied and downloaded means the same document."""
    texts = [
        "",
        "a",
        "- a",
        "a: b",
        "yes",
        "1e3",
        "0x1",
        "a #b",
        "é\u202e\u2028\u0007",
        "'",
        '"',
        "\\",
        "x ",
        " x",
        "~",
    ]
    blocks = [
        "a\nb",
        "a\nb\n",
        "a\n\n",
        "\na",
        " a\nb",
        "a\n  b\n\nc\n",
        "a\n   \nb",
        "a\r\nb",
        "#\n",
        "a\tb\n\tc",
    ]
    document = {
        "texts": texts,
        "blocks": {f"a b/{number}": text for number, text in enumerate(blocks)},
        "nested": [[1, [2.5, None]], {"a": [{"b": blocks}]}, [], {}, True],
        "-": {"": 1, "yes": "no"},
    }
    written = await call(page, "diff.js", "m.lines(value).join('\\n') + '\\n'", value=document)
    assert yaml.safe_load(written) == document
    assert "  a b/1: |" in written.replace('"', "")
    deep: Any = 1
    for _ in range(300):
        deep = {"a": [deep]}
    assert await call(page, "diff.js", "m.lines(value).length", value=deep) < 200


async def fields(page: Page) -> None:
    """Items of lists are matched by their keys, never by their places."""
    web = {"name": "web", "image": "web:1", "ports": [{"containerPort": 80}, {"containerPort": 443}]}
    other = {"name": "side", "image": "side:1"}
    left = {
        "metadata": {"generation": 1, "resourceVersion": "1", "labels": {"a/b": "1", "c": "2"}},
        "status": {"conditions": [{"type": "Ready", "status": "False"}]},
        "spec": {"replicas": 2, "containers": [web, other], "args": ["a", "b"]},
    }
    changed = {
        **web,
        "image": "web:2",
        "ports": [{"containerPort": 443, "name": "tls"}, {"containerPort": 80}],
    }
    right = {
        "metadata": {"generation": 2, "resourceVersion": "2", "labels": {"a/b": "3"}},
        "status": {"conditions": [{"type": "Extra", "status": "True"}, {"type": "Ready", "status": "True"}]},
        "spec": {"replicas": 5, "containers": [{"name": "new"}, changed, other], "args": ["b", "c"]},
    }
    found = await call(page, "diff.js", "m.fieldChanges(left, right)", left=left, right=right)
    port = "spec.containers[name=web].ports"
    assert found == [
        {"field": "spec.replicas", "old": 2, "new": 5},
        {"field": "spec.containers[name=new]", "new": {"name": "new"}},
        {"field": "spec.containers[name=web].image", "old": "web:1", "new": "web:2"},
        {"field": f"{port}[containerPort=443].name", "new": "tls"},
        {"field": f"{port}[order]", "old": [80, 443], "new": [443, 80]},
        {"field": "spec.args[]", "old": "a"},
        {"field": "spec.args[]", "new": "c"},
        {"field": 'metadata.labels["a/b"]', "old": "1", "new": "3"},
        {"field": "metadata.labels.c", "old": "2"},
        {"field": "status.conditions[type=Extra]", "new": {"type": "Extra", "status": "True"}},
        {"field": "status.conditions[type=Ready].status", "old": "False", "new": "True"},
        {"field": "metadata.generation", "old": 1, "new": 2},
    ]
    rows = await call(page, "diff.js", "m.compared(left, right)", left=left, right=right)
    without = {"spec": {**left["spec"], "containers": "x"}}
    assert await call(page, "diff.js", "m.fieldChanges(one, one)", one=without) == []
    # Each side is that object; what is beside each other belongs together.
    for side, document in (("left", left), ("right", right)):
        text = "\n".join(row[side] for row in rows if row[side] is not None)
        shown = yaml.safe_load(text)
        assert sorted(one["name"] for one in shown["spec"]["containers"]) == sorted(
            one["name"] for one in document["spec"]["containers"]
        )
        assert shown["status"] == document["status"]
    assert {"kind": "changed", "left": '      image: "web:1"', "right": '      image: "web:2"'} in rows
    assert {"kind": "same", "left": "    - name: side", "right": "    - name: side"} in rows
    # Values of Secrets differ, but the difference is not shown.
    one, two = ({"metadata": {}, "data": {"a": text, "b": "x"}} for text in ("c2VjcmV0", "aHVudGVy"))
    hidden = await call(page, "secrets.js", "m.maskedPair('secrets', one, two)", one=one, two=two)
    assert [side["data"] for side in hidden] == [
        {"a": "*** (8 characters)", "b": "*** (1 characters)"},
        {"a": "*** (8 characters), another value", "b": "*** (1 characters)"},
    ]
    # Recordings may have stringData, and what is no text.
    one, two = (
        {"metadata": {}, "type": "Opaque", "stringData": {"a": text, "b": None, "c": [text]}}
        for text in ("hunter2", "swordfish")
    )
    hidden = await call(page, "secrets.js", "m.maskedPair('secrets', one, two)", one=one, two=two)
    assert hidden == [
        {
            **one,
            "stringData": {"a": "*** (7 characters)", "b": "*** (0 characters)", "c": "*** (11 characters)"},
        },
        {
            **two,
            "stringData": {
                "a": "*** (9 characters), another value",
                "b": "*** (0 characters)",
                "c": "*** (13 characters), another value",
            },
        },
    ]
    changes = [{"field": "data.a", "old": "c2VjcmV0", "new": "aHVudGVy"}, {"field": "type", "new": "x"}]
    assert await call(page, "secrets.js", "m.maskedChanges('secrets', changes)", changes=changes) == [
        {"field": "data.a", "old": "***", "new": "***"},
        {"field": "type", "new": "x"},
    ]


async def sentences(page: Page) -> None:
    def event(change: str = "updated", **more: Any) -> dict[str, Any]:
        return {"change": change, "verb": "patch", "user": "alice", "fieldManager": "kubectl", **more}

    scaled = {"field": "spec.replicas", "old": 2, "new": 5}
    labelled = {"field": "metadata.labels.app", "new": ""}
    resumed = {"field": "spec.paused", "old": True}
    renamed = {"field": "data.text", "old": None, "new": "two\nlines" + "x" * 100}
    for given, what in (
        (event(summary={"changes": [scaled], "more": 2}), "spec.replicas 2 → 5"),
        (
            event(summary={"changes": [labelled]}),
            'metadata.labels.app added: ""',
        ),
        (event(summary={"changes": [renamed]}), f"data.text null → two lines{'x' * 70}…"),
        (event(summary={"changes": []}), "no field changed"),
        (event(summary={"changes": [scaled, resumed]}), "spec.replicas 2 → 5, spec.paused removed, was true"),
        (event(), "patch"),
        (event("created", summary={"text": "replicas 2, image web:1"}), "created, replicas 2, image web:1"),
        (event("created"), "created"),
        (event("deleted", summary={}), "deleted"),
    ):
        found = await call(page, "summary.js", "m.sentence(given)", given=given)
        more = given.get("summary", {}).get("more", 0)
        assert found == {"what": what, "more": more, "who": "alice with kubectl"}
    # What came along with a change of the spec is only counted.
    given = event(summary={"changes": [resumed, labelled, {"field": "status.replicas", "new": 1}], "more": 4})
    found = await call(page, "summary.js", "m.sentence(given)", given=given)
    assert (found["what"], found["more"]) == ("spec.paused removed, was true", 6)
    for given, who in (
        (event(user="kubectl"), "kubectl"),
        (event(user="system:kubectl"), "system:kubectl"),
        (event(user="system:serviceaccount:ci:deployer"), "ci/deployer with kubectl"),
        (event(user="system:serviceaccount:kube-system:job-controller"), "kube-system/job-controller"),
        (event(guessed=True, user=""), "kubectl (guessed)"),
        (event(guessed=True, userGuessed=True), "alice (guessed) with kubectl (guessed)"),
        (event(fieldManager=""), "alice"),
        ({"change": "updated"}, ""),
    ):
        assert (await call(page, "summary.js", "m.sentence(given)", given=given))["who"] == who
    # Text in a line cannot be hidden or reversed.
    hidden = "a\u202eb\u200bc\ufeff\u2028d"
    changes = [
        {"field": f"data.{hidden}", "old": hidden, "new": [hidden]},
        {"field": hidden, "new": hidden},
        {"field": hidden, "old": hidden},
    ]
    for given in (
        event(user=hidden, fieldManager=hidden * 2, summary={"changes": changes}),
        event("created", user=hidden, summary={"text": hidden}),
        event("created", user=f"system:serviceaccount:ci:{hidden}", guessed=True, fieldManager=hidden),
    ):
        found = await call(page, "summary.js", "m.sentence(given)", given=given)
        for text in (found["who"], found["what"] if "summary" in given else ESCAPED):
            assert ESCAPED in text and text.isprintable()
    web = {"type": "deployments.apps", "namespace": "default", "name": "web"}
    assert await call(page, "summary.js", "m.objectText(web)", web=web) == "deployments.apps default/web"
    assert await call(page, "summary.js", "m.objectText(one)", one={**web, "namespace": ""}) == (
        "deployments.apps web"
    )
    named = await call(page, "summary.js", "m.objectText(one)", one={**web, "name": hidden})
    assert named == f"deployments.apps default/{ESCAPED}"


async def authors(page: Page) -> None:
    names = [f"author {number}" for number in range(18)]
    color = "names.map((name) => m.authorColor(name))"
    light = await call(page, "authors.js", color, names=names)
    assert len(set(light)) == 17 and light[16] == light[17]  # the last ones share a grey
    assert await call(page, "authors.js", color, names=names) == light
    await page.scheme("dark")
    await page.wait("matchMedia('(prefers-color-scheme: dark)').matches")
    dark = await call(page, "authors.js", color, names=names)
    assert set(dark).isdisjoint(light)
    await page.scheme("light")
    # A new one takes the colour of who was seen longest ago; others keep theirs, also when the page is loaded again.
    later = "(m.beginAuthors(), [3, 40, 0, 4].map((at) => m.authorNumber(`author ${at}`)))"
    assert await call(page, "authors.js", later) == [3, 0, 1, 4]
    again = "[3, 40, 0, 4].map((at) => m.authorNumber(`author ${at}`))"
    assert await call(page, "authors.js?loaded-again", again) == [3, 0, 1, 4]
    await page.run("sessionStorage.clear()")


async def lists(page: Page) -> None:
    items = [{"version": str(version), "micros": NOON + 10 * version} for version in (9, 7, 4)]
    for cursor, at in (
        ({"time": NOON + 70, "version": "7"}, 1),
        ({"time": None, "version": "4"}, 2),
        ({"time": NOON + 89, "version": ""}, 1),  # the last one before the cursor
        ({"time": NOON + 500, "version": ""}, 0),
        ({"time": NOON, "version": ""}, -1),
        ({"time": None, "version": "5"}, -1),
        (None, -1),
    ):
        assert await call(page, "changes.js", "m.indexAt(items, cursor)", items=items, cursor=cursor) == at
    texts = "m.marked(text, m.wordsOf(sought)).map((one) => one.outerHTML ?? one).join('')"
    for text, sought, shown in (
        ("spec.replicas 2 → 5", "REPL", "spec.<mark>repl</mark>icas 2 → 5"),
        ("spec.replicas 2 → 5", "licas", "spec.replicas 2 → 5"),
        ("two words, words", 'two "words, w"', "<mark>two</mark> <mark>words, w</mark>ords"),
        ("<b>", "b", "<<mark>b</mark>>"),
        ("a.*b", ".*", "a<mark>.*</mark>b"),
        ("plain", "", "plain"),
    ):
        assert await call(page, "changes.js", texts, text=text, sought=sought) == shown
    # Two cursors: the earlier moment is the old one, whichever was set first.
    # After the newest event, everything is as that left it.
    ordered = "Object.values(m.inOrder(first, second, newest)).map((one) => one.version || one.time)"
    given = {"first": {"time": NOON, "version": "7"}, "newest": {"time": NOON + 5, "version": "9"}}
    for second, found in ((NOON + 1, ["7", NOON + 1]), (NOON - 1, [NOON - 1, "7"]), (NOON + 6, ["7", "9"])):
        assert await call(page, "compare.js", ordered, second=second, **given) == found
    for listed, is_part, total, text in (
        (7, False, 8, "7 in this range"),  # totals count buckets
        (100, True, 2500, "100 of 2,500 in this range"),
        (100, True, None, "100+ in this range"),
    ):
        given = {"listed": listed, "isPart": is_part, "total": total}
        assert await call(page, "changes.js", "m.countText(listed, isPart, total)", **given) == text
    # A comparison of a part says so.
    part = {"leftOut": 1200, "searchedFrom": "42", "indexed": {"upto": "10", "newest": "100"}}
    text = await call(page, "compare.js", "m.partText(part)", part=part)
    assert "10 %" in text and "names of 1,200 objects" in text and "from version 42" in text
    assert await call(page, "compare.js", "m.partText(part)", part={}) == ""
    indexing = "m.indexingText(indexed)"
    part = {"from": "652", "upto": "1000", "oldest": "1", "newest": "1000"}
    assert "34 %" in await call(page, "changes.js", indexing, indexed=part)
    assert await call(page, "changes.js", indexing, indexed=None) == ""


async def comparisons(page: Page) -> None:
    """The pane, with responses that a server has in rare cases."""
    shown = """(async () => {
        const pane = document.getElementById("comparison");
        await new m.ComparePane({ comparison: async () => found }, {}).show({ time: 5, version: "" }, 9);
        return [pane.textContent, pane.getAttribute("aria-busy")];
    })()"""
    counts = {"added": 0, "removed": 0, "changed": 0}
    nobody = {"metadata": {}, "counts": counts, "items": []}
    text, busy = await call(page, "compare.js", shown, found=nobody)
    assert "You may not list anything" in text and busy == "false"
    compacted = {**nobody, "from": {"version": "3", "time": 0}, "to": {"version": "9", "time": NOON}}
    text, _ = await call(page, "compare.js", shown, found={**compacted, "searchedFrom": "5"})
    assert "version 3" in text and "1970" not in text and "later" not in text and "from version 5" in text
    closed = """(async () => {
        const pane = document.getElementById("comparison"), busy = () => pane.getAttribute("aria-busy");
        const made = new m.ComparePane({ comparison: () => new Promise(() => {}) }, {}), states = [];
        made.show({ time: 5, version: "" }, 9);
        states.push(busy());
        await made.show({ time: 5, version: "" }, null);
        return [...states, busy()];
    })()"""
    assert await call(page, "compare.js", closed) == ["true", "false"]


async def moving_cursor(page: Page) -> None:
    """If the cursor moves while events around it are loaded, those at its last position are shown."""
    moved = """(async () => {
        const pod = { type: "pods", name: "a", change: "created" };
        const event = (version) => ({ ...pod, version: String(version), micros: NOON + version });
        const asked = [];
        let respond;
        const events = (parameters) => {
            if (!parameters.has("order")) asked.push(parameters.get("to"));
            if (parameters.has("order")) return { items: [], metadata: { continue: "more" } };
            const at = Number(parameters.get("to").slice(-7, -1));
            const found = { items: [event(at), event(at - 1)], metadata: { continue: "more" } };
            return asked.length > 1 ? found : new Promise((done) => { respond = () => done(found); });
        };
        const until = async (isTrue) => { while (!isTrue()) await new Promise((done) => setTimeout(done, 5)); };
        const pane = new m.ChangesPane({ events }, {});
        pane.show({ items: [event(900), event(899)], token: "more", query: new URLSearchParams(), newest: null });
        pane.follow({ time: NOON + 500, version: "" });
        await until(() => respond);
        pane.follow({ time: NOON + 100, version: "" });
        respond();
        await until(() => pane.items[0].version === "100");
        return asked.map((text) => text.slice(-7, -1));
    })()"""
    assert await call(page, "changes.js", moved, NOON=NOON) == ["000500", "000100"]


async def old_versions(page: Page) -> None:
    """The pane of an object shows the version that is wanted, also one that is not among the newest."""
    shown = """(async () => {
        const all = Array.from({ length: 250 }, (_, at) => at + 1).reverse().map((version) =>
            ({ version: String(version), time: new Date(NOON / 1000 + version).toISOString(), patch: [] }));
        const past = async (target, what, parameters) => {
            const last = Number(parameters.get("continue") ?? parameters.get("to") ?? 250);
            const first = last - Number(parameters.get("limit"));
            return { items: all.filter((one) => one.version > first && one.version <= last),
                metadata: first > 0 ? { continue: String(first) } : {} };
        };
        const objects = async (type, namespace, name, { parameters }) => ({ at: parameters.get("at") });
        const session = { past, objects, events: async () => ({ items: [] }) };
        const pane = new m.ObjectPane(session, { cursor: () => cursor });
        await pane.show({ type: "pods", namespace: "a", name: "b" }, left, right);
        const difference = document.getElementById("difference");
        while (!difference.dataset.shown) await new Promise((done) => setTimeout(done, 5));
        return difference.dataset.shown;
    })()"""
    later = {"time": NOON + 240_500, "version": ""}
    for cursor, left, right, versions in (
        (None, "", "", "249..250"),
        (None, "", "3", "2..3"),
        (None, "", "151", "150..151"),  # the last of the first page
        (later, "", "3", "2..3"),
        (later, "", "", "239..240"),
        ({"time": None, "version": "42"}, "", "", "41..42"),
        (None, "5", "249", "5..249"),
        (None, "", "1", "..1"),
    ):
        given = {"cursor": cursor, "left": left, "right": right, "NOON": NOON}
        assert await call(page, "object.js", shown, **given) == versions


async def exports(page: Page) -> None:
    """An export that has not all events says so."""
    ended = """(async () => {
        const asked = new URLSearchParams({ limit: "500", summary: "true" }), said = [];
        const events = async (parameters) => {
            const at = Number(parameters.get("continue") ?? 0) + 1;
            return { items: Array(25000).fill({ version: "1" }), metadata: at < pages ? { continue: String(at) } : {} };
        };
        const exported = m.exportEvents({ events }, asked, (count) => said.push(count));
        const end = await exported.catch((error) => error.message);
        return [end, said, asked.has("summary")];
    })()"""
    assert await call(page, "export.js", ended, pages=2) == [50_000, [25_000, 50_000], False]
    text, counts, _ = await call(page, "export.js", ended, pages=3)
    assert "the oldest 50,000 events only" in text and counts == [25_000, 50_000]


async def folded_kinds(page: Page) -> None:
    """Kinds stay as the user folded them; those that the pane itself unfolded do not."""
    opened = """(async () => {
        const kinds = ["a", "b", "c", "d", "e", "f"], types = new Map(kinds.map((one) => [one, { namespaced: false }]));
        const rows = [{ cells: ["one"], object: { metadata: { name: "one" } } }];
        const objects = async () => ({ columnDefinitions: [{ name: "Name" }], rows, metadata: {} });
        const pane = new m.StatePane({ types, objects }, () => {}), body = document.querySelector("#state .kinds");
        const open = () => [...body.children].filter((one) => one.open).map((one) => one.dataset.type).join("");
        // Browsers report later what is open.
        const toggled = (count) => new Promise((done) => {
            body.addEventListener("toggle", () => --count || setTimeout(done), { capture: true });
        });
        const found = [];
        for (const [folded, many] of [["", 5], ["b", 4]]) {
            let reported = toggled(5);
            await pane.show(null, [], kinds);
            await reported;
            reported = folded && toggled(1);
            if (folded) body.querySelector(`[data-type=${folded}] summary`).click();
            await reported;
            reported = toggled(many);
            await pane.show(null, [], [...kinds].reverse());
            await reported;
            found.push(open());
        }
        return found;
    })()"""
    assert await call(page, "state.js", opened) == ["fedcb", "fedc"]


@pytest.mark.slow
async def test_very_different_objects_are_compared_quickly(chromium: str) -> None:
    async with journal_page(chromium) as (api, page):
        await page.go(address(api))
        await page.wait("document.getElementById('sign-in') && !document.getElementById('sign-in').hidden")
        one, other = ([f"{letter}{number}" for number in range(9000)] for letter in "ab")
        rows = "m.sideBySide(one, other).length"
        assert await call(page, "diff.js", rows, one=one, other=other) == 9000


async def pictures(page: Page) -> None:
    """What the first view shows, and what the heading says."""
    hour = 3_600_000_000
    ends = "m.firstRange(oldest, newest, now)"
    idle = {"oldest": {"time": NOON - 9 * hour}, "newest": {"time": NOON}, "now": NOON + 5 * hour}
    found = await call(page, "lanes.js", ends, **idle)
    assert found["from"] < NOON - hour and NOON < found["to"] < NOON + hour
    short = {"oldest": {"time": NOON - 5}, "newest": {"time": NOON}, "now": NOON}
    found = await call(page, "lanes.js", ends, **short)
    assert found["from"] < NOON - 5 and found["to"] > NOON
    # What a server creates for itself at its start is left out, if there is more.
    begun = {"oldest": {"time": NOON - 600_000_000}, "newest": {"time": NOON}, "now": NOON}
    assert (await call(page, "lanes.js", ends, **begun))["from"] == NOON - 598_000_000
    none = await call(page, "lanes.js", ends, oldest=None, newest=None, now=NOON)
    assert none == {"from": NOON - hour, "to": NOON}

    names = "[...m.shortNames(events).values()]"
    for users, managers, expected in (
        (["a", "a"], ["one", "two"], ["one", "two"]),
        (["system:serviceaccount:ops:scaler", "bob"], ["m", "m"], ["scaler", "bob"]),
        (["bob", "bob", "eve"], ["one", "two", "one"], ["bob with one", "bob with two", "eve"]),
        (["", "system:kube-scheduler"], ["", ""], ["kube-scheduler"]),
        (["a\u202eb", "bob"], ["m", "m"], [r"a\u202eb", "bob"]),
        (["system:", "bob"], ["", "m"], ["system:", "bob"]),
    ):
        events = [{"user": user, "fieldManager": tool} for user, tool in zip(users, managers, strict=True)]
        assert await call(page, "authors.js", names, events=events) == expected
    row = {"cells": [0, 1, 0, 0, 4, 0, 2, 0, 9, 0, 0, 3]}
    data = {"start": NOON, "width": 10}
    for first, last, count in ((0, 100, 6), (6, 94, 2), (46, 94, 0), (44, 96, 3), (40, 96, 5)):
        view = {"from": NOON + first, "to": NOON + last}
        assert (
            await call(page, "scale.js", "m.countIn(row, data, view)", row=row, data=data, view=view) == count
        )

    # Kinds by activity with their trees; one whose objects are all below others is loaded when the user unfolds it.
    def life(kind: str, name: str, depth: int = 0) -> dict[str, Any]:
        return {"type": kind, "namespace": "a", "name": name, "uid": name, "depth": depth, "changes": 1}

    lives = [life("d.apps", "web"), life("pods", "web-1", 1), life("nodes", "n")]
    counts = {"start": NOON, "width": 10, "rows": []}
    for kind, cells, objects in (
        ("d.apps", [0, 1, 0, 0], 1),
        ("pods", [0, 1, 2, 0], 1),
        ("d.x.io", [1, 0, 1, 0], 9),
    ):
        counts["rows"].append({"type": kind, "namespace": "", "cells": cells, "objects": objects})
    view = {"from": NOON, "to": NOON + 100}
    made = (
        "m.grouped(counts, view, 'type', lives, complete, new Map(known))"
        ".map((one) => [one.key, one.label, one.total, one.items?.map((item) => item.name) ?? null, one.more])"
    )
    given = {"counts": counts, "view": view, "lives": lives}
    assert await call(page, "groups.js", made, **given, complete=True, known=[]) == [
        ["pods", "pods", 3, None, False],
        ["d.apps", "d.apps", 1, ["web", "web-1"], False],
        ["d.x.io", "d.x.io", 1, None, False],
        ["…", "without changes", 0, ["n"], False],
    ]
    loaded = [["pods", {"items": [life("pods", "web-1")], "token": "more"}]]
    found = await call(page, "groups.js", made, **given, complete=False, known=loaded)
    assert found[0] == ["pods", "pods", 3, ["web-1"], True]
    assert found[1][-1] is False  # all objects of the kind are there

    # Long texts are shown in pieces, and all of them can be reached.
    left = {"data": {f"key-{number}": "same" for number in range(5000)}}
    right = {"data": {**left["data"], "z": "new"}}
    lines = """(() => {
        const made = m.differenceOf("configmaps", left, right, ["left", "right"]);
        for (let gap; (gap = made.querySelector(".gap button")); ) gap.click();
        return made.querySelectorAll("tbody tr").length;
    })()"""
    assert await call(page, "differences.js", lines, left=left, right=right) == 5002
