"""The etcd API that a journal on etcd uses: `api` has the requests, the replies and the errors.

`rewound/cluster/etcd` implements `Etcd`.
"""
