"""The certificates of a data folder: a cluster CA, a serving certificate and an admin certificate.

The gateway calls `prepare` once at start, while it holds the journal's lock and only if it serves TLS; then
`write_kubeconfig`. The library that creates certificates takes 16 MB once loaded. So it runs in a child process, and
only if a certificate is missing, of another CA, about to expire, or lacks a name.
"""
