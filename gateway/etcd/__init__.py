"""The client of an etcd v3 cluster, over the JSON form of its API.

`client` is the `Etcd` that actors get; it asks one `member` after another, and reads a `watch` from one. `encoding` has
the JSON documents, `replies` says what an error of etcd means.
"""
