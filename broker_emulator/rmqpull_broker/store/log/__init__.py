"""The commit log: records, segments and their replay."""
