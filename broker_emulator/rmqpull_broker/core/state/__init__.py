"""The broker's state: facts, the state that they make, and drafts of new facts."""
