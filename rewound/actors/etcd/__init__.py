"""What a journal on etcd needs of an etcd cluster: `api` has the requests, the replies and the errors.

`gateway/etcd` implements `Etcd` and hands it in.
"""
