"""What the broker knows: facts, the state that they add up to, and drafts of new ones."""
