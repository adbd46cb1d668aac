"""What is sent to a server of somebody else's, and what comes back: bounded, and without keys."""
