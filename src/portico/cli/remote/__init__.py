"""The commands that talk to a gateway. They need the client and the standard library, and load no more than that."""
