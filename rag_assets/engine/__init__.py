"""What a stage and its partitions are, and what a stage is given."""
