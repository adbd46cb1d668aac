"""From runs and judgments to numbers: judging units, metrics, means, the leaderboard."""
