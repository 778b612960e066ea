"""rmqpull.v1: the modules are generated from the .proto files beside them."""
