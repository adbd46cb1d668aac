"""Which items of a pool people should judge, and what their labels say of the systems."""
