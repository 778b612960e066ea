"""The transports. Each is a folder; callers use them only through the protocol ``BrokerClient`` in ``port.py``.

- ``columnar``: ``rmqpull.v1`` over gRPC, if the server has it.
- ``standard``: ``apache.rocketmq.v2`` over gRPC.
- ``grpc``: what these two share.
- ``reading_ahead``: pulls several queues at once within the limits of ``Flow``. It is independent of the protocol.

To add a transport, such as RocketMQ's remoting:

1. Add a folder with a client class that implements all of ``port.BrokerClient``. A read creates one
   ``reading_ahead.Lane`` per sequence of pulls and iterates over a ``ReadAhead`` of them. The port's docstrings say
   what each method promises; ``loss.py`` makes the losses, and ``port.log_reset`` logs resets.
2. Turn the status codes of the protocol into the exceptions of ``rmqpull_client.errors`` in one module, as
   ``grpc/failures.py`` does. Callers never see a code of the protocol.
3. Let ``choice.connect`` choose it, by what the connection says or the server reports.
4. Add it to the parameters of fixture ``extensions`` in ``tests/client/conftest.py``. All tests in
   ``tests/client/transports/test_port*.py`` then run against it. They are the contract of the port.
"""
