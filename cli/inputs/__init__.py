"""What a person gives: options, the file of defaults, files of events and plans."""
