"""Admission webhooks: `matching` finds those that a write must ask, `mutating` and `validating` ask them.

`caller` calls one; `hook` is one, compiled; `candidates` and `selector` make a write that no webhook selects cheap.
`review` and `documents` have what is sent and read; `clients`, `services` and `credentials` where a webhook is and
how the server authenticates to it.
"""
