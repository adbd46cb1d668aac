"""Rankings that were made elsewhere."""
