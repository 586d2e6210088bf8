"""What actors need of calls to other servers; `gateway/outgoing` implements `calls`.

`target` has the address and the credentials from a `kubeconfig_file`, `slots` and `deadlines` bound the calls that
wait, and `shared_calls` lets callers that ask the same share one call.
"""
