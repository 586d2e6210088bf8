"""The interface for calls to other servers, which `gateway/outgoing` implements.

`target` has the address and the credentials from a `kubeconfig_file`, `slots` and `deadlines` bound the calls that
wait, and `shared_calls` lets callers with the same request share one call.
"""
