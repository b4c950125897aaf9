"""FedPower: the leading directions of a matrix whose rows lie with many nodes."""
