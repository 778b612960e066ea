"""Go programs as processes: the producers and push consumers of rocketmq-client-go."""
