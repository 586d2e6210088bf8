"""Tokens of service accounts: `tokens` issues and authenticates them, `claims` has their content, `keys` signs them."""
