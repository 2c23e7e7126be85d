"""What a planner reads before it plans: context sources, and how they are gathered."""
