"""The edge of the broker: gRPC and the remoting protocol in front of the core. It translates, waits and responds."""
