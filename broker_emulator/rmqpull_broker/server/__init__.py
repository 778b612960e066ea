"""The edges: gRPC in front of the core. They translate, wait and answer, and decide nothing."""
