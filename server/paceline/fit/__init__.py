"""`paceline fit`: a profile from measured points, result files or a live endpoint.

`points` and `readers` bring measurements in, `loop` says what a closed loop of users sees of an
engine, `estimate` finds the numbers that explain it, `search` the discrete facts, `surface` the
overhead by load and length, `predict` plays the profile back. Imports `core` and the client alone.
"""
