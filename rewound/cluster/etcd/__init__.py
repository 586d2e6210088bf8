"""The client of an etcd v3 cluster, by gRPC over HTTP/2 (decision 0042).

`client` is the `Etcd` that actors use. It calls a `cluster`, which tries one `member` after another, and reads watches
from one of them. A member has one `connection`; `encoding` has the protobuf messages; `replies` classifies errors of
etcd.
"""
