"""The readers that Spark runs: on the driver, and in tasks."""
