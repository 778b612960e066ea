"""apache.rocketmq.v2: definition_pb2 and service_pb2 are generated from the .proto files beside them."""
