"""Language models: one client, its budget, its cache, and prompts that have versions."""
