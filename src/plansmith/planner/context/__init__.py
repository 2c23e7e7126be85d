"""What a planner is told besides the request: profile, history, background, all fenced."""
