"""The transports: each is a folder, and all are used through one port, ``port.BrokerClient``."""
