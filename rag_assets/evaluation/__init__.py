"""From runs and relevant units to numbers: judging units, metrics, means, the leaderboard."""
