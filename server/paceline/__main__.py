"""`python -m paceline` is the `paceline` command."""

from __future__ import annotations

from paceline.cli import main

if __name__ == "__main__":
    main()
