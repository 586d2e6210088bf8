"""Who a caller is and what it may do: `authentication/` and `authorization/`.

`authorize` has attributes, rules and decisions, `accounts/` the tokens of service accounts, `remote/` the interface of
calls to webhooks. `reviews` computes access and token reviews, `impersonation` checks a caller that acts as another
user, `bootstrap_token` parses the Secret of a bootstrap token.
"""
