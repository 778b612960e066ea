"""The metrics page, and the format of log lines."""
