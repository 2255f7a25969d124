"""HTTP and XML of storage services: bounded, checked, without redirects."""
