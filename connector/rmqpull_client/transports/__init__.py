"""The transports. Callers use them only through the protocols ``BrokerClient`` and ``Producer`` in ``port.py``.

- ``grpc``: ``columnar`` speaks ``rmqpull.v1``, if the server has it, and ``standard`` speaks ``apache.rocketmq.v2``.
- ``remoting``: RocketMQ's own protocol, to the brokers of a cluster or to a proxy.

To add a transport:

1. Add a folder with a client class that implements all of ``port.BrokerClient``. The port's docstrings say what each
   method promises; ``loss.py`` makes the losses, and ``port.log_reset`` logs resets.
2. Turn the codes of the protocol into the exceptions of ``rmqpull_client.errors`` in one module, as
   ``grpc/failures.py`` does. Callers never see a code of the protocol.
3. Let ``choice.connect`` choose it, by what the connection says or the server reports.
4. Add it to the parameters of fixture ``extensions`` in ``tests/client/conftest.py``. All tests in
   ``tests/client/transports/test_port*.py`` then run against it. They are the contract of the port.
"""
