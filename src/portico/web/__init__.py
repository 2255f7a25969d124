"""The page: modules, styles and texts for browsers, and what puts them together (`bundle.py`)."""
