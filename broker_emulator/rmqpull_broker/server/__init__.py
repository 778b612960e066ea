"""The edge of the broker: gRPC in front of the core. It translates, waits and answers, and makes no decisions."""
