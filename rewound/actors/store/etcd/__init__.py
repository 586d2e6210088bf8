"""The journal ordered by etcd: every node writes by transactions and follows one watch into its own journal.

`records`      the keys and values in etcd
`copy`         builds a node's journal from the state in etcd, or checks that an existing one can continue
`follower`     the watch: complete revisions, in order, into the journal and the feed
`committer`    writes: transactions for proposed events, shared by those that wait
`epoch`        ensures that a transaction whose reply was lost is applied now or never
`freshness`    consistent reads: one linearizable read for all that wait
`election`     which node runs the controllers
`foreign`      changes by other programs than nodes, and the quarantine

docs/decisions/0043-journal-on-etcd.md and 0095-shared-transactions.md explain the design. Begin with `records`, then
`committer`.
"""
