"""The remoting protocol: its ports, connections and dispatch, and the handlers of requests."""
