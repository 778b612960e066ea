"""What the gRPC transports share: channels, endpoints, security, retries, namespaces, and errors."""
