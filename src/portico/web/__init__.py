"""The page: scripts, styles and messages, and the bundler that joins them."""
