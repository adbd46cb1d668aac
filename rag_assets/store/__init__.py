"""Where everything is kept: immutable artifacts, snapshots, caches, locks and the warehouse."""
