"""What all gRPC transports share: channels, endpoints, TLS, signing, retries, namespaces."""
