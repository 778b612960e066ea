"""Changes single places of the most important modules, and runs their tests: a change that no test notices is found."""
