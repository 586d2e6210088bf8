"""The measurements behind docs/decisions: `python -m benchmarks.decisions.TOPIC.NAME` prints the figures of one page.

Topics are `connections`, `bodies` (of requests and responses), `kinds` and `controllers`; the modules beside them are
shared.
"""
