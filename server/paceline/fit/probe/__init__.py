"""Probing a live endpoint: a bounded number of requests, each there to pin a coefficient down.

`endpoint` asks, `plan` decides what, `trace` reads steps off the times of tokens, `regress` and
`identify` turn those into a step's coefficients, `document` into a profile.
"""
