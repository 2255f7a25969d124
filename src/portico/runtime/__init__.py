"""Clocks, tasks, threads and processes. Knows no words of Portico's subject."""
