"""The remoting protocol: ports, connections and dispatch. The requests themselves are in ``handlers.remoting``."""
