"""Topics, groups, routes, names and fault rules: what an administrator changes."""
