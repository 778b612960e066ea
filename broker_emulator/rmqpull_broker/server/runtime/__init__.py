"""What runs while the broker serves: group commit, parked pulls, timed work, faults and the upkeep of the storage."""
