"""The nouns, and the errors. Imports nothing of Portico."""
