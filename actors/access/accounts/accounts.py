"""Service account tokens of one server: keys, issuer, and the method that authenticates them."""

from __future__ import annotations

from dataclasses import dataclass

from actors.access.accounts.authenticate import AccountTokens
from actors.access.accounts.issuer import TokenIssuer
from actors.access.accounts.keys import AccountKeys, KeyFiles, check_own_key
from actors.access.accounts.options import AccountOptions
from actors.clock import Clock
from actors.names import Names
from actors.store.feed import Feed
from journal.log import Journal


@dataclass(frozen=True, slots=True)
class Accounts:
    keys: AccountKeys
    options: AccountOptions
    issuer: TokenIssuer
    tokens: AccountTokens


def build_accounts(
    names: Names, journal: Journal, feed: Feed, clock: Clock, files: KeyFiles, options: AccountOptions
) -> Accounts:
    keys = AccountKeys(files)
    if files.given:
        keys.load()
    else:
        check_own_key(files.own)
    tokens = AccountTokens(names, journal, feed, clock, keys, options)
    return Accounts(keys, options, TokenIssuer(names, keys, options), tokens)
