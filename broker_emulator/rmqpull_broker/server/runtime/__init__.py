"""What runs while the broker serves, whatever the protocol: group commit, parked pulls, pops, timed work."""
