"""Programs that write the generated parts of README and docs: ``make readme``."""
