"""The same scenarios by many processes: a locustfile, and a script for k6."""
