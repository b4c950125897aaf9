"""What a shuffler adds to local randomizers: upper bounds, and attained pairs from below."""
