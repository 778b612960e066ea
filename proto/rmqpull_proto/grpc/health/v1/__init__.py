"""grpc.health.v1: health_pb2 is generated from the .proto file beside it."""
