"""Labels: their health, pools for people, questions that are generated."""
