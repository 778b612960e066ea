"""The transports over gRPC, ``columnar`` and ``standard``, and what they share: channels, security, retries, errors."""
