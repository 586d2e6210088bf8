"""API priority and fairness: which requests start, wait, or are rejected with 429 (docs/flow-control.md).

`priority_and_fairness` and `configuration` find the flow of a request, `seats` has the priority levels with their fair
queues, and `in_flight` the limits of a server without priority and fairness.
"""
