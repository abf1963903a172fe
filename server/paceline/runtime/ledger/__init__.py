"""The credit ledger's stores: SQLite in one process, Valkey for a fleet."""
