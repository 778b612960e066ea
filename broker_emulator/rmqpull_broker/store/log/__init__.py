"""The commit log: its records, its segments and their replay."""
