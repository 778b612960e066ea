"""Snapshots of the broker's state, which shorten the replay."""
