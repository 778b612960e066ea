"""A message as data: its columns, properties and ids."""
