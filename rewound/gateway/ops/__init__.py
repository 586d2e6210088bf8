"""Health checks, metrics and the watchdog of the event loop: what operators see of a server (docs/metrics.md).

`request_series` counts requests, `meters` reads everything else at scrape time, `exposition` writes the text;
`operations` is all of it as one value.
"""
