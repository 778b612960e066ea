"""The RPCs of ``rmqpull.v1.AdminService``: topics, groups, offsets, clients, fault rules and the clock."""
