"""What each command does, one file a command."""
