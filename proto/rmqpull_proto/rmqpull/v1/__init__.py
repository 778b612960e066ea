"""rmqpull.v1: columns_pb2 is generated from the .proto file beside it."""
