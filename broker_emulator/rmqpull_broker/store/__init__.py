"""Where messages are stored: the commit log on a file system, and the consume queues derived from it."""
