"""`paceline race`: the same answer at several speeds, side by side, each streamed for real."""
