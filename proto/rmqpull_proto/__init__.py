"""What clients and servers share of three protocols: ``apache.rocketmq.v2``, our ``rmqpull.v1``, and remoting."""

__version__ = "0.2.0.dev0"
