"""A request from top to bottom: `pipeline` has its stages, from the route to dispatch.

`context` has what is known of one request, `services` what the pipeline calls. `errors` is the only module with status
codes; each of the others parses or decides one aspect of a request.
"""
