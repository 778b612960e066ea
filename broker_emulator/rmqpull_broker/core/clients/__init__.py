"""The connected clients: channels, producers, consumers, their subscriptions, settings and queue locks."""
