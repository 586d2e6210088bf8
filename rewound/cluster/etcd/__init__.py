"""The client of an etcd v3 cluster, by gRPC over HTTP/2 (decision 0042).

`client` is the `Etcd` that actors get. It asks a `cluster`, which is one `member` after another, and reads a `watch`
from one of them. A member has one `connection`; `encoding` has the protobuf messages; `replies` says what an error of
etcd means.
"""
