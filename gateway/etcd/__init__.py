"""The client of an etcd v3 cluster, over the JSON form of its API.

`client` is the `Etcd` that actors get. It asks a `cluster`, which is one `member` after another, and reads a `watch`
from one of them. `encoding` has the JSON documents; `replies` says what an error of etcd means.
"""
