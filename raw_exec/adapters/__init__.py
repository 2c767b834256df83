"""Ways in for programs that are not written in trio, and for other protocols."""
