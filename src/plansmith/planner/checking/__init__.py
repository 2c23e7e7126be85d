"""What check, mend and lint are made of: names, schemas, flow, coercions, constraints."""
