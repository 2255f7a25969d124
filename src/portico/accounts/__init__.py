"""Who may act: users, credentials, sessions, throttling, connections, and the vault."""
