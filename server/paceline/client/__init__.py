"""A small client for OpenAI-compatible streams: the standard library, and nothing of the server.

Law: what is here measures a server from outside, so it imports nothing that a server is made of.
"""
