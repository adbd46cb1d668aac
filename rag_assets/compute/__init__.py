"""Where models and searches are computed: in this process, or by the workers of a cluster."""
