"""Between actors and the journal: the `committer` writes, the `feed` publishes durable events, `reads` serves reads.

A `proposal` is an event before it has an offset, `document` the stored bytes of an object; `housekeeping` takes
snapshots and compacts.
"""
