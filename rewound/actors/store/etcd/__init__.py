"""The journal whose order comes from etcd: every node writes by transactions and follows one watch into its own
journal.

    `records`      the keys and values in etcd
    `copy`         a node's journal made of the state in etcd, and whether an existing one can go on
    `follower`     the watch: whole revisions, in order, into the journal and the feed
    `committer`    writes: one transaction for each proposed event
    `epoch`        makes sure that a transaction whose reply was lost is applied now or never
    `freshness`    consistent reads: one linearizable read for all that wait
    `election`     which node runs the controllers
    `foreign`      what others than nodes have written, and the quarantine

docs/decisions/0043-journal-on-etcd.md says why it has this shape. Begin with `records`, then `committer`.
"""
