"""A message as data: its columns, properties and ids, and its form in responses of the remoting protocol."""
