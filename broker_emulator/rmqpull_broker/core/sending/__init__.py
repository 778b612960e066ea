"""How messages become facts: sends, batches, delays, transactions and stages."""
