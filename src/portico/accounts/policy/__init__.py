"""The policy file: connections, groups, users and mounts in YAML, and the access that they give."""
