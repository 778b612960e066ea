"""The RPCs, in a folder for each service."""
