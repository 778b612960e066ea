"""Kills processes at random: is every acknowledged message in the output exactly once?

Run it with ``make soak`` or ``python -m soak``. docs/soak.md says what is checked, and has the results.
"""
