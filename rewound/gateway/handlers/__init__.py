"""The last stage of a request: `dispatch` has one method for each verb, `paths` serves non-resource paths.

`bodies` decodes what clients send, `lists` and `watches` make responses that are longer than one body.
"""
