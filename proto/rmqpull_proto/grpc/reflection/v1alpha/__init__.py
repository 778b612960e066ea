"""grpc.reflection.v1alpha: reflection_pb2 is generated from the .proto file beside it."""
