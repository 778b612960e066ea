"""Helpers of the tests. tests/README.md lists them, with the fixtures that give them, and says when to use which."""
