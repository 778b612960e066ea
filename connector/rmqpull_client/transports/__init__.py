"""The transports. Callers use them only through the protocols ``BrokerClient`` and ``Producer`` in ``port.py``.

- ``grpc``: ``columnar`` speaks ``rmqpull.v1``, if the server has it, and ``standard`` speaks ``apache.rocketmq.v2``.
- ``remoting``: RocketMQ's own protocol, to the brokers of a cluster or to a proxy.

To add a transport:

1. Add a folder with a client class that implements all of ``port.BrokerClient``, and a row for it in
   ``tests/tidy/test_layers.py``. The port's docstrings say what each method promises; ``loss.py`` makes the losses, and
   ``port.log_reset`` logs resets. To write, implement ``port.Producer``.
2. Turn the codes of the protocol into the exceptions of ``rmqpull_client.errors`` in one module, as
   ``grpc/failures.py`` does. Callers never see a code of the protocol.
3. Let ``choice.connect`` choose the client, and ``choice.get_producer`` the producer, by what the connection says or
   the server reports.
4. Add a value for ``extensions`` in ``tests/client/conftest.py``, and let ``serve`` there start such a server. All
   tests in ``tests/client/transports/test_port*.py`` then run against it: the contract of ``BrokerClient``.
5. Add a kind of server to ``tests/harness/server_kinds.py``, so that the tests of Spark in ``tests/integration`` run
   against it. Those in ``tests/integration/sink`` are the contract of ``Producer``.
"""
