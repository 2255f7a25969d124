"""Logs, metrics, traces and the audit log. Reports, and never decides."""
