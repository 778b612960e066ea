"""Filter expressions, TAG and SQL92, evaluated on columns."""
