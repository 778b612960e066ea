"""The remoting protocol of RocketMQ: frames, commands, headers, routes and messages as bytes. No input or output."""
