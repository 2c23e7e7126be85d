"""Remote agents over A2A: a person approves each card, and no message is sent twice."""
