"""The handlers of the remoting protocol, one module for each kind of request, with a table ``HANDLERS`` by code."""
