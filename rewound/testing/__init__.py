"""Servers for tests, and what makes them misbehave (docs/testing.md).

`fixture/` is the pytest fixture, `envtest/` serves the tests of controller-runtime, `explore/` tests properties of
controllers. `faults/` injects errors and holds watches, `clock` moves time, `controls` has the paths below
/debug/rewound/ that use them; `controlled` adds these to a server.
"""
