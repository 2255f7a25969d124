"""Commands that work on the gateway's own machine."""
