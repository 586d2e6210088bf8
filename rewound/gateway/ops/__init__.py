"""Health checks, metrics and the event loop watchdog: what operators see of a server (docs/metrics.md).

`request_series` counts requests, `meters` reads everything else at scrape time, `exposition` writes the text;
`operations` holds all of it in one value.
"""
