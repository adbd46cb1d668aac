"""A store on S3: its objects, and the local copy in which everything is computed and read."""
