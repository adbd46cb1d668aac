"""What an answer is written from, who writes it, and how right it is."""
