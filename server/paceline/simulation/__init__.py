"""The time model in virtual time: what a load test would say, without the load.

Reads traces, makes arrivals, runs them through the same deployments as the live server, and says
what came of it.

Law: of Paceline's layers only `core` may be imported.
"""
