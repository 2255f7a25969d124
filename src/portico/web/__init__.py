"""The page: scripts, styles and messages, and the bundler that joins them."""

from typing import Final

PREFIX: Final = "/page/"
"""Path prefix of the page's files. The next segment is a hash of the content."""
