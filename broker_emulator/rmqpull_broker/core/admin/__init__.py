"""Topics, groups, routes and fault rules: what an administrator changes."""
