"""The page of metrics, and the format of log lines."""
