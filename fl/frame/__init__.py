"""What a system is: its declaration, and what the frame asks of it."""
