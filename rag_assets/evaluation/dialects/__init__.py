"""The numbers of other tools, exactly: each computes its own metrics from the same lists."""
