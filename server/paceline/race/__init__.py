"""`paceline race`: the same answer at several speeds, side by side, each streamed for real.

Law: a server is seen through `client` alone; only the command and the server it starts know of a
command line.
"""
