"""Who sees what of a round: names, what reaches whom, and the words for both."""
