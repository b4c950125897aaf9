"""The questions to the engine, and what an answer says of the event as a whole."""
