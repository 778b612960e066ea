"""What runs while the broker serves: group commit, parked pulls, timers, faults and upkeep."""
