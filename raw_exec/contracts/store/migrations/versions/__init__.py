"""One file per version of the schema, oldest first; none is ever edited."""
