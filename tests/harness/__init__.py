"""What tests work with beside the product: tests/README.md lists each harness and says when to use it."""
