"""The state at an older offset: the one folder that rebuilds state from events.

`View.at` returns a `PastView` (`past_view`), which has the same reads as a view. How it finds the row of an object at
offset R:

    get      the by_object index gives the object's first event after R; its `previous` is the row's event at R.
    lists    R near the head: undo. An object's first event after R names, as `previous`, its event at R.
             R far from the head: replay. The closest snapshot, or a closer version that was replayed before, and the
             events between it and R: applied if it is before R, undone if it is after R.

All give a `Version`: the offsets that some objects (`undone`) or all objects (`replayed`) had at R. Contents are read
only for the rows that are returned. `Versions` caches a bounded number of them, and an undone one is extended
with the events appended since, so that paging through an old version never reads all events since R again.
Rebuilding one may take long: `PastView.prepare` does it step by step, in as many transactions.

    events   1 create a   2 create b   3 update a   4 delete b          R = 2
    undo     3: a was at 1   4: b was at 2          {a: 1, b: 2} over the present {a: 3}     ->  a@1, b@2
    replay   1: a is at 1    2: b is at 2           {a: 1, b: 2}                             ->  a@1, b@2
"""
