"""Plan formats: Plansmith's own (`native`) and those of other systems."""
