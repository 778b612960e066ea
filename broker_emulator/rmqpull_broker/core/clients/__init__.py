"""Who is connected: channels, producers, consumers, their subscriptions, settings and queue locks."""
