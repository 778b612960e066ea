"""What a pull finds and answers, parked pulls, and consumer offsets."""
