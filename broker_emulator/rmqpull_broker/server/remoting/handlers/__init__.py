"""The requests of the remoting protocol, one module for each kind. Each has a table ``HANDLERS`` by request code."""
