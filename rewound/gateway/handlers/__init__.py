"""The last stage of a request: `dispatch` has one method for each verb, `paths` serves what is no resource.

`bodies` and `patches` decode what clients send, `lists` and `watches` make the responses that are longer than one
body.
"""
