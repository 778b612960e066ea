"""Where messages live: the commit log on a file system, and the consume queues that are derived from it."""
